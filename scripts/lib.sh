# What the scripts share. It is sourced, never run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root

# Absolute, so that it is the same folder after a `cd`.
case ${CARGO_TARGET_DIR-} in
"" | /*) ;;
*) export CARGO_TARGET_DIR=$PWD/$CARGO_TARGET_DIR ;;
esac
readonly target_dir=${CARGO_TARGET_DIR:-$root/target}
readonly tools=$target_dir/tools

# The script as it is called: `scripts/check loom` is scripts/check.d/loom.
self=scripts/${0##*/}
if [[ $0 =~ ([a-z]+)\.d/([a-z]+)$ ]]; then self="scripts/${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"; fi
readonly self

# One line, exit code 2.
fail() {
    echo "$self: $*" >&2
    exit 2
}

# The comment at the head of a script.
head_of() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1"; }

# Whether an argument asks for help or for the version. Nothing is installed for these.
asks_for_help() {
    local argument
    for argument; do
        case $argument in -h | --help | -V | --version) return 0 ;; esac
    done
    return 1
}

# Prints the head of this script and ends, if that is asked for.
offer_help() {
    if asks_for_help "$@"; then
        head_of "$0"
        exit
    fi
}

# dispatch NAME ARGUMENTS: becomes the script NAME of this script's folder, or lists them. The first
# line of a script's head says what it does, the second one how long that takes.
dispatch() {
    local folder=$root/$self.d name=${1-} file
    local names=()
    for file in "$folder"/*; do names+=("${file##*/}"); done
    case $name in
    -h | --help)
        head_of "$0"
        echo "Usage: $self NAME [ARGUMENTS]"
        echo "       $self NAME --help"
        echo
        for name in "${names[@]}"; do
            printf '  %-13s %s\n' "$name" "$(sed -n '2s/^# //p' "$folder/$name")"
            printf '  %-13s %s\n' "" "$(sed -n '3s/^# //p' "$folder/$name")"
        done
        exit
        ;;
    "") fail "which one? There are ${names[*]} (--help says more)" ;;
    esac
    [[ $name =~ ^[a-z]+$ && -x $folder/$name ]] ||
        fail "no '$name': there are ${names[*]} (--help says more)"
    shift
    exec "$folder/$name" "$@"
}

# program NAME FEATURES ARGUMENTS: becomes a program of wheelwork-bench. Paths are the caller's.
program() { program_of wheelwork-bench "$@"; }

# program_of PACKAGE NAME FEATURES ARGUMENTS: becomes a program of that package.
program_of() {
    [ -x "$target_dir/release/$2" ] || echo "== building $2, once: a minute or two" >&2
    exec cargo run --release --quiet --manifest-path "$root/Cargo.toml" --package "$1" \
        --bin "$2" --features "$3" -- "${@:4}"
}

# comparison NAME FEATURES ARGUMENTS: becomes a program of compare/, which is built apart. Paths are
# the caller's.
comparison() {
    [ -x "$target_dir/compare/release/$1" ] || echo "== building $1, once: some minutes" >&2
    exec cargo run --release --quiet --target-dir "$target_dir/compare" \
        --manifest-path "$root/compare/Cargo.toml" --package "compare-$1" --features "$2" -- "${@:3}"
}

# debian_packages NAMES: installs them.
debian_packages() {
    local as_root=()
    command -v apt-get >/dev/null || fail "install what Debian has in: $*"
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    echo "== installing $*" >&2
    # Lists that are old may do.
    "${as_root[@]}" apt-get update -qq || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
        fail "apt-get could not install $*"
}

# needs COMMAND PACKAGES: installs them where the command is missing.
needs() { command -v "$1" >/dev/null || debian_packages "${@:2}"; }

# cargo_tool NAME VERSION: installs that version of a cargo subcommand into target/tools, once.
cargo_tool() {
    if "$tools/bin/$1" "${1#cargo-}" --version 2>/dev/null | grep -qF "$2"; then return; fi
    echo "== $1 $2, once"
    cargo install "$1@$2" --locked --quiet --root "$tools" --target-dir "$tools/build"
    rm -r "$tools/build"
}

# python_tools NAME PACKAGES: installs these packages of PyPI into an environment of their own,
# target/tools/NAME, once for these versions.
python_tools() {
    local folder=$tools/$1
    if [ "$(cat "$folder/versions" 2>/dev/null)" = "${*:2}" ]; then return; fi
    echo "== ${*:2}, once" >&2
    needs python3 python3 python3-venv
    python3 -m venv --clear "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
    echo "${*:2}" >"$folder/versions"
}

# Two things at once. The output of the first one comes last. (Behind `||` a shell would pass over
# errors inside of them, so both are waited for.) Each is a process group of its own, so that an
# interrupt ends all that it has started.
together() {
    local log first second status=0
    log=$(mktemp)
    set -m
    "$1" >"$log" 2>&1 &
    first=$!
    "$2" &
    second=$!
    set +m
    # shellcheck disable=SC2064
    trap "kill -- -$first -$second 2>/dev/null; rm -f $log" EXIT
    trap "exit 1" HUP INT TERM
    wait "$second" || status=$?
    wait "$first" || status=$?
    trap - EXIT HUP INT TERM
    cat "$log"
    rm "$log"
    return "$status"
}

# side_by_side COUNT COMMAND: calls it with each COUNT words of the input, which end with a zero byte,
# as often at a time as there are cores. What a call prints comes when it has ended. After one that
# fails none begins.
side_by_side() {
    # shellcheck disable=SC2016
    xargs -0 -n "$1" -P "$(getconf _NPROCESSORS_ONLN)" bash -c '
        status=0
        output=$("$@" 2>&1) || status=255
        printf "%s\n" "$output"
        exit "$status"' bash "${@:2}"
}
