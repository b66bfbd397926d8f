//! A headless Chromium that tests drive over its DevTools pipe.
//!
//! Written here: the crates that speak this protocol generate types for all of it (five megabytes of source, and forty crates more),
//! and refuse what a newer Chromium adds to a message. Tests need a dozen methods, as JSON.
#![allow(unreachable_pub, clippy::needless_pass_by_value)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use base64::Engine;
use kross_testing::wait;
use serde_json::{Value as Json, json};

/// How long the browser may take to answer, on a busy machine.
const ANSWER: Duration = Duration::from_secs(60);
/// The variable with the path of the browser.
const CHROME: &str = "CHROME";

/// A running browser. It ends when the program ends and closes its pipe.
pub struct Browser {
    pipe: Mutex<ChildStdin>,
    inbox: Arc<Inbox>,
    process: Mutex<Child>,
}

/// What the browser has sent.
#[derive(Default)]
struct Inbox {
    received: Mutex<Received>,
    changed: Condvar,
}

#[derive(Default)]
struct Received {
    sent: u64,
    answers: HashMap<u64, Json>,
    /// Events by session.
    events: HashMap<String, Vec<Json>>,
    ended: bool,
}

/// The browser of this program; none where there is none. With `CI=true`, a missing browser fails the test.
pub fn browser() -> Option<&'static Browser> {
    static BROWSER: OnceLock<Option<Browser>> = OnceLock::new();
    BROWSER
        .get_or_init(|| {
            let found = find();
            if found.is_none() {
                let needed = std::env::var("CI").is_ok_and(|value| value == "true");
                assert!(!needed, "no Chromium in PATH: install it, or set `{CHROME}` to its path");
                eprintln!(
                    "SKIPPED: no Chromium in PATH; install it, or set `{CHROME}` to its path, to test the dashboard"
                );
            }
            found.map(|program| Browser::start(&program))
        })
        .as_ref()
}

/// The browser in `CHROME`, or in `PATH`.
fn find() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os(CHROME).filter(|program| !program.is_empty()) {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)))
        .find(|it| it.is_file())
}

impl Browser {
    fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap().keep();
        // The shell gives the browser its pipe as the descriptors 3 and 4, and removes the profile when it has ended.
        let script = "\"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1; rm -rf \"$PROFILE\" </dev/null >/dev/null 2>&1";
        let mut process = Command::new("sh")
            .args(["-c", script])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--force-color-profile=srgb"])
            .args(["--remote-debugging-pipe", &format!("--user-data-dir={}", profile.display())])
            .env("PROFILE", &profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let inbox = Arc::new(Inbox::default());
        let (pipe, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        std::thread::spawn({
            let inbox = Arc::clone(&inbox);
            move || inbox.fill(answers)
        });
        Self { pipe: Mutex::new(pipe), inbox, process: Mutex::new(process) }
    }

    /// Calls a method, of the browser or of a session.
    fn call(&self, session: Option<&str>, method: &str, parameters: Json) -> Result<Json, String> {
        let id = {
            let mut received = self.inbox.received.lock().unwrap();
            received.sent += 1;
            received.sent
        };
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.pipe.lock().unwrap().write_all(&bytes).map_err(|error| format!("{method}: {error}"))?;
        let answer = self.inbox.wait(|received| received.answers.remove(&id)).ok_or_else(|| {
            let ended = self.process.lock().unwrap().try_wait();
            format!("{method}: the browser did not answer ({ended:?})")
        })?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(answer["result"].clone()),
        }
    }

    /// A page with cookies and storage of its own.
    pub fn page(&'static self) -> Page {
        let call = |method: &str, parameters: Json| self.call(None, method, parameters).unwrap();
        let context = call("Target.createBrowserContext", json!({}))["browserContextId"].clone();
        let target = call("Target.createTarget", json!({"url": "about:blank", "browserContextId": context}))
            ["targetId"]
            .clone();
        let attached = call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        let page = Page { browser: self, session, target };
        for domain in ["Page.enable", "Runtime.enable", "Network.enable", "Log.enable"] {
            page.call(domain, json!({}));
        }
        page.size(1280, 900);
        page
    }
}

impl Inbox {
    fn fill(&self, answers: ChildStdout) {
        let mut messages = BufReader::new(answers).split(0);
        while let Some(Ok(message)) = messages.next() {
            let Ok(message) = serde_json::from_slice::<Json>(&message) else { continue };
            let mut received = self.received.lock().unwrap();
            match (message["id"].as_u64(), message["sessionId"].as_str()) {
                (Some(id), _) => drop(received.answers.insert(id, message)),
                (None, Some(session)) => {
                    received.events.entry(session.to_owned()).or_default().push(message);
                }
                (None, None) => {}
            }
            self.changed.notify_all();
        }
        self.received.lock().unwrap().ended = true;
        self.changed.notify_all();
    }

    fn wait<T>(&self, mut found: impl FnMut(&mut Received) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + ANSWER;
        let mut received = self.received.lock().unwrap();
        loop {
            if let Some(found) = found(&mut received) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if received.ended || left.is_zero() {
                return None;
            }
            received = self.changed.wait_timeout(received, left).unwrap().0;
        }
    }
}

/// One page. Closed when dropped.
pub struct Page {
    browser: &'static Browser,
    session: String,
    target: Json,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.browser.call(None, "Target.closeTarget", json!({"targetId": self.target}));
    }
}

impl Page {
    /// Calls a method of the protocol.
    pub fn call(&self, method: &str, parameters: Json) -> Json {
        self.browser.call(Some(&self.session), method, parameters).unwrap()
    }

    /// Opens an address, and waits until it is loaded and live.
    pub async fn open(&self, address: &str) {
        let opened = self.call("Page.navigate", json!({"url": address}));
        assert!(opened.get("errorText").is_none(), "{address}: {opened}");
        self.until_live().await;
    }

    /// Waits until the page has the content of its stream.
    pub async fn until_live(&self) {
        self.until("document.readyState === 'complete' && document.documentElement.dataset.live === 'true'")
            .await;
    }

    /// What a script says.
    pub fn evaluate(&self, script: &str) -> Result<Json, String> {
        let parameters = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let answer = self.browser.call(Some(&self.session), "Runtime.evaluate", parameters)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(thrown["exception"]["description"].as_str().unwrap_or("it threw").to_owned()),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// What a script says, which must not fail.
    #[track_caller]
    pub fn script(&self, script: &str) -> Json {
        match self.evaluate(script) {
            Ok(value) => value,
            Err(error) => panic!("{script}: {error}"),
        }
    }

    /// Waits until a script says something true.
    #[track_caller]
    pub fn until(&self, script: &str) -> impl Future<Output = Json> {
        let what = format!("`{script}` in the page");
        wait::until(what, move || async move {
            match self.evaluate(script)? {
                Json::Null | Json::Bool(false) => {
                    Err(self.evaluate("location.href + '\\n' + document.body.innerText")?.to_string())
                }
                value => Ok(value),
            }
        })
    }

    /// Presses a key, such as `Tab`, `Enter` or `/`.
    pub fn press(&self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, None),
            "Enter" => (13, Some("\r")),
            "Escape" => (27, None),
            "ArrowLeft" => (37, None),
            "ArrowUp" => (38, None),
            "ArrowRight" => (39, None),
            "ArrowDown" => (40, None),
            key => (0, Some(key)),
        };
        let event = |kind: &str| {
            let mut event = json!({"type": kind, "key": key, "windowsVirtualKeyCode": code});
            if let (Some(text), "keyDown") = (text, kind) {
                event["text"] = json!(text);
            }
            event
        };
        self.call("Input.dispatchKeyEvent", event("keyDown"));
        self.call("Input.dispatchKeyEvent", event("keyUp"));
    }

    /// Types a text where the focus is.
    pub fn type_text(&self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Sets the preferences of the user.
    pub fn prefer(&self, scheme: &str, motion: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Sets the size of the window.
    pub fn size(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Cuts the network of the page, or restores it.
    pub fn offline(&self, offline: bool) {
        let conditions =
            json!({"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.call("Network.emulateNetworkConditions", conditions);
    }

    /// The parameters of all events of a kind.
    pub fn events(&self, method: &str) -> Vec<Json> {
        let received = self.browser.inbox.received.lock().unwrap();
        let events = received.events.get(&self.session).map(Vec::as_slice).unwrap_or_default();
        events.iter().filter(|event| event["method"] == method).map(|event| event["params"].clone()).collect()
    }

    /// The addresses of all requests of the page.
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events("Network.requestWillBeSent");
        sent.iter().filter_map(|event| event["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// What the browser complains of: scripts that throw, and what the Content-Security-Policy refuses.
    pub fn complaints(&self) -> Vec<String> {
        let logged = self.events("Log.entryAdded");
        let logged = logged.iter().map(|event| &event["entry"]).filter(|entry| entry["level"] == "error");
        let thrown = self.events("Runtime.exceptionThrown");
        logged.map(Json::to_string).chain(thrown.iter().map(Json::to_string)).collect()
    }

    /// The window as a PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }
}
