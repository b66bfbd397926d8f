#!/usr/bin/env bash
# Downloads kross if it is not installed, validates definitions with annotations, and checks their format.
set -euo pipefail

repository="https://github.com/kross-run/kross"

install() {
  local version="$1" machine archive folder
  if [ "$version" = latest ]; then
    # The address of the latest release ends with its tag.
    version="$(curl --proto =https -fsSLo /dev/null -w '%{url_effective}' "$repository/releases/latest")"
    version="${version##*/v}"
  fi
  case "$(uname -m)" in
    x86_64) machine=amd64 ;;
    aarch64 | arm64) machine=arm64 ;;
    *) echo "::error::there is no kross for $(uname -m)" && exit 2 ;;
  esac
  archive="kross-$version-linux-$machine.tar.gz"
  folder="$(mktemp -d)"
  curl --proto =https -fsSLo "$folder/$archive" "$repository/releases/download/v$version/$archive"
  curl --proto =https -fsSLo "$folder/SHA256SUMS" "$repository/releases/download/v$version/SHA256SUMS"
  (cd "$folder" && grep " [*]\?$archive\$" SHA256SUMS | sha256sum --check --quiet -)
  tar -xzf "$folder/$archive" -C "$folder"
  kross="$(find "$folder" -type f -name kross | head -n 1)"
  chmod +x "$kross"
}

if [ "${KROSS_VERSION:-latest}" = local ]; then
  kross=kross
else
  install "${KROSS_VERSION:-latest}"
fi

# Paths are separated by spaces, as in a shell.
read -r -a paths <<<"${KROSS_PATHS:-.}"
flags=()
[ -z "${KROSS_CRDS:-}" ] || flags+=(--crds "$KROSS_CRDS")
[ -z "${KROSS_KUBERNETES:-}" ] || flags+=(--kubernetes "$KROSS_KUBERNETES")
[ -z "${KROSS_UNKNOWN_KINDS:-}" ] || flags+=(--unknown-kinds "$KROSS_UNKNOWN_KINDS")

code=0
"$kross" validate --format github ${flags[@]+"${flags[@]}"} -- "${paths[@]}" || code=$?
if [ -n "${KROSS_SARIF:-}" ]; then
  # The findings are reported above; a file with findings is what is asked for here.
  "$kross" validate --format sarif ${flags[@]+"${flags[@]}"} -- "${paths[@]}" >"$KROSS_SARIF" 2>/dev/null || true
fi
if [ "${KROSS_FORMAT:-true}" = true ]; then
  unformatted="$("$kross" fmt --check -- "${paths[@]}")" || {
    status=$?
    [ "$code" -ne 0 ] || code=$status
    while IFS= read -r file; do
      [ -z "$file" ] || echo "::error file=$file,line=1,title=not formatted::run \`kross fmt $file\`"
    done <<<"$unformatted"
  }
fi
exit "$code"
