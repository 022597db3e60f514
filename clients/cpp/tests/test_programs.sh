#!/bin/sh
# Exit statuses and the one line of the programs. usage: test_programs.sh DIRECTORY
set -u
unset PARLEY_ENDPOINT PARLEY_SESSION PARLEY_TOKEN
failed=0

# expect STATUS PATTERN COMMAND...: the exit status, and the one line on standard error.
expect() {
    status=$1 pattern=$2
    shift 2
    said=$("$@" 2>&1 >/dev/null)
    got=$?
    lines=$(printf '%s\n' "$said" | wc -l)
    if [ "$got" -ne "$status" ] || [ "$lines" -ne 1 ] ||
        ! printf '%s' "$said" | grep -q -- "$pattern"; then
        printf 'wanted %s and "%s", got %s and "%s": %s\n' "$status" "$pattern" "$got" "$said" "$*"
        failed=1
    fi
}

for name in fifo easy; do
    program=$1/parley-$name
    expect 2 "parley-$name: where is the server?" "$program"
    expect 2 "'--conect' is no option" "$program" --conect tcp://127.0.0.1:1
    expect 2 "--connect wants a value" "$program" --connect
    expect 2 "is no endpoint to connect to" "$program" --connect nonsense
    for wrong in 0 -1 soon 1e3 0.0000001 ''; do
        expect 2 "--interval is a positive number of seconds" "$program" --interval "$wrong"
    done
    "$program" --help | grep -q -- --kill-overdue || { echo "$name: no help"; failed=1; }
    # Ctrl-C while nobody answers: 130, one line.
    expect 130 "parley-$name: interrupted" \
        timeout --preserve-status --signal=INT 1 "$program" --connect tcp://127.0.0.1:9
done
exit $failed
