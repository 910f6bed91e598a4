#!/usr/bin/env bash
# A cell's first three minutes, from nothing to nothing: a job of each kind, a race of two
# schedulers, an explanation, an audit, a clean end. `make demo` builds bin/ohm and calls
# this. It exits with 0 only if all of it went as it says.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
dev=            # pid of the cell
export OHM_CONFIG=/dev/null

title() { printf '\n== %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
ohm() { bin/ohm "$@"; }

# show prints a command and what it says.
show() { printf '$ %s\n' "$*"; "$@"; }

# alive says whether a process is there and no zombie.
alive() { [[ -r /proc/$1/stat ]] && [[ $(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) == [RSDTtI] ]]; }

# within SECONDS WHAT COMMAND… waits until the command succeeds.
within() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "not in time: $what"
    sleep 0.1
  done
}

cleanup() {
  local code=$?
  trap - EXIT INT TERM
  if [[ -n $dev ]] && alive "$dev"; then
    bin/ohm stop --all --wait --timeout 20s >/dev/null 2>&1 || true
    kill "$dev" 2>/dev/null || true
    wait "$dev" 2>/dev/null || true
  fi
  ((code == 0)) || { echo "demo: failed; the cell's log:" >&2; cat "$dir/log" >&2 2>/dev/null || true; }
  rm -rf "$dir"
  exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

title "A whole cell on this machine: ohm dev"
bin/ohm dev --data-dir "$dir/cell" --address 127.0.0.1:0 --node demo >"$dir/out" 2>"$dir/log" &
dev=$!
is_ready() { ! alive "$dev" || grep -q '^ready ' "$dir/out"; }
within 60 "the cell is ready" is_ready
alive "$dev" || fail "the cell ended"
OHM_ADDRESS=$(sed -n 's/^ready //p' "$dir/out")
export OHM_ADDRESS
cat "$dir/out"
show ohm node list

title "One job of each kind"
for job in hello batch ml service system; do
  show ohm run "examples/jobs/$job.yaml" --wait --timeout 60s
done
show ohm status
show ohm task list

title "What they said"
show ohm logs hello/main/0
show ohm logs sums/part/3
show ohm logs train/leader/0
show ohm logs train/worker/1
within 20 "the services speak" sh -c "bin/ohm logs ticker/web/1 | grep -q tick && bin/ohm logs loadwatch/probe/0 | grep -q load"
show ohm logs ticker/web/1
show ohm logs loadwatch/probe/0

title "Two schedulers, one snapshot, the same room"
go build -o "$dir/race" ./examples/race
"$dir/race" --address "$OHM_ADDRESS" | tee "$dir/raced"
winner=$(sed -n 's/^winner .* transaction \([^ ]*\).*/\1/p' "$dir/raced")
loser=$(sed -n 's/^loser .* transaction \([^ ]*\).*/\1/p' "$dir/raced")
[[ -n $winner && -n $loser ]] || fail "the race had no winner and loser"
show ohm conflict list
ohm conflict list -o json >"$dir/conflicts"
grep -q "\"transaction\":\"$loser\".*\"winner\":{[^}]*\"transaction\":\"$winner\"" "$dir/conflicts" || fail "the journal does not tell who lost to whom"
show ohm txn get "$winner"
show ohm txn get "$loser"

title "Why does it wait?"
cat >"$dir/big.yaml" <<'JOB'
job: big
kind: batch
groups:
  - name: main
    cpu: 5000
    memory: 16Mi
    command: ["true"]
JOB
show ohm run "$dir/big.yaml"
within 20 "big has an explanation" sh -c 'bin/ohm explain big | grep -q "short of cpu"'
show ohm explain big

title "Do the promises hold? Every revision of the store is read again"
show ohm audit
ohm audit -o json | grep -q '"violations":\[\]' || fail "the audit found violations"

title "The end"
pids=$(ohm task list -o json | grep -o '"state":"Running"[^{}]*"pid":[0-9]*' | grep -o "[0-9]*$")
running=0
for pid in $pids; do alive "$pid" && running=$((running + 1)); done
((running == 3)) || fail "3 tasks should still run, not $running"
show ohm stop --all --wait --timeout 60s
for pid in $pids; do
  ! alive "$pid" || fail "process $pid of a task is still there"
done
kill -TERM "$dev"
code=0
wait "$dev" || code=$?
((code == 0)) || fail "the cell ended with $code"
dev=
left=$(grep -lsaF "$dir/cell" /proc/[0-9]*/cmdline 2>/dev/null || true)
[[ -z $left ]] || fail "processes are left: $left"
[[ ! -s $dir/log ]] || { echo "its log:"; cat "$dir/log"; }
echo "the cell has ended, and nothing of it is left"
