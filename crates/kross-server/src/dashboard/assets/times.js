// Keeps ages up to date, as kubectl shows them.

function age(seconds) {
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86400)];
  const two = (large, unit, small, smallUnit) => large + unit + (small ? small + smallUnit : '');
  if (seconds < 120) return seconds + 's';
  if (seconds < 600) return two(minutes, 'm', seconds % 60, 's');
  if (seconds < 10800) return minutes + 'm';
  if (seconds < 28800) return two(hours, 'h', minutes % 60, 'm');
  if (seconds < 172800) return hours + 'h';
  if (seconds < 691200) return two(days, 'd', hours % 24, 'h');
  return days + 'd';
}

function tick() {
  if (document.hidden) return;
  for (const time of document.querySelectorAll('time[datetime]')) {
    const text = age(Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000)));
    if (time.textContent !== text) time.textContent = text;
  }
}

export function begin() {
  setInterval(tick, 1000);
}
