# Shell functions that Headway's scripts share. Sourced, never run.
# shellcheck shell=bash
# shellcheck disable=SC2034  # apt_problem is read by the scripts that source this

# say WORDS...: one line for the person watching.
say() { printf '%s\n' "$*" >&2; }

# die WORDS...: one clear sentence, and the end.
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# begin WORDS... / finish: a step with its duration; the durations are what the README's minutes are made of.
begin() {
    _step_name=$*
    _step_start=$EPOCHREALTIME
    # On a terminal the line is completed in place; in a log file an unfinished line would mix with other output.
    if [[ -t 2 ]]; then printf '  %s …' "$_step_name" >&2; fi
}
finish() {
    local note=${1:-} tenths
    tenths=$(((${EPOCHREALTIME/[.,]/} - ${_step_start/[.,]/}) / 100000))
    if [[ -t 2 ]]; then printf '\r' >&2; fi
    printf '  %-46s %4d.%d s  %s\n' "$_step_name" $((tenths / 10)) $((tenths % 10)) "$note" >&2
}

# free_mib FOLDER: free space of the file system that holds (or will hold) FOLDER.
free_mib() {
    local folder=$1
    while [[ ! -e $folder ]]; do folder=$(dirname "$folder"); done
    df --output=avail --block-size=1M "$folder" | tail -n 1 | tr -d ' '
}

# need_space FOLDER MIB WHAT: ends with one sentence when there is less than MIB free.
need_space() {
    local free
    free=$(free_mib "$1")
    ((free >= $2)) || die "the disk that holds $1 has $free MiB free; $3 needs $2 MiB"
}

# installed PACKAGE: whether this Debian package is installed.
installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# apt_install PACKAGE...: installs what is missing; returns 1, with a sentence in $apt_problem, when it can't.
apt_install() {
    local package log missing=()
    apt_problem=
    command -v apt-get >/dev/null || {
        apt_problem="this needs the packages $* and there is no apt-get here to install them"
        return 1
    }
    for package in "$@"; do installed "$package" || missing+=("$package"); done
    ((${#missing[@]})) || return 0
    ((EUID == 0)) || {
        apt_problem="the Debian packages ${missing[*]} are missing and only root can install them"
        return 1
    }
    log=$(mktemp)
    # RUNLEVEL=1 keeps maintainer scripts from starting services on machines without systemd.
    local apt=(env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -y -qq -o DPkg::Lock::Timeout=600)
    # The package lists of a fresh machine are empty, those of an old one point at versions that are gone.
    if ! "${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null >"$log" 2>&1; then
        if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; } \
            </dev/null >"$log" 2>&1; then
            apt_problem="apt-get could not install ${missing[*]}: $(grep -E '^E:' "$log" | tail -n 1)"
            rm -f "$log"
            return 1
        fi
    fi
    rm -f "$log"
}

# uv_knows_the_index PIP: uv takes five seconds where pip takes forty-five, but it knows nothing of an index that
# only pip is set up for.
uv_knows_the_index() { [[ -z $("$1" config get global.index-url 2>/dev/null)${PIP_INDEX_URL:-} ]]; }
