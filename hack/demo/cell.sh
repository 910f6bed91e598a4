# What every demo needs: a cell that this shell starts, looks at and ends. To be sourced, with
# the working directory at the project's root; bin/ohm is built.

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

# start_cell starts the cell, with more flags of ohm dev if there are some.
start_cell() {
  title "A whole cell on this machine: ohm dev"
  bin/ohm dev --data-dir "$dir/cell" --address 127.0.0.1:0 --node demo "$@" >"$dir/out" 2>"$dir/log" &
  dev=$!
  is_ready() { ! alive "$dev" || grep -q '^ready ' "$dir/out"; }
  within 60 "the cell is ready" is_ready
  alive "$dev" || fail "the cell ended"
  OHM_ADDRESS=$(sed -n 's/^ready //p' "$dir/out")
  export OHM_ADDRESS
  cat "$dir/out"
}

# pids are those of the tasks that run.
pids() { ohm task list -o json | { grep -o '"state":"Running"[^{}]*"pid":[0-9]*' || true; } | grep -o "[0-9]*$" || true; }

audit_cell() {
  title "Do the promises hold? Every revision of the store is read again"
  show ohm audit
  ohm audit -o json | grep -q '"violations":\[\]' || fail "the audit found violations"
}

# end_cell stops all jobs; N tasks should run before.
end_cell() {
  title "The end"
  local running=0 tasks code=0 left
  tasks=$(pids)
  for pid in $tasks; do alive "$pid" && running=$((running + 1)); done
  ((running == $1)) || fail "$1 tasks should still run, not $running"
  show ohm stop --all --wait --timeout 60s
  for pid in $tasks; do
    ! alive "$pid" || fail "process $pid of a task is still there"
  done
  kill -TERM "$dev"
  wait "$dev" || code=$?
  ((code == 0)) || fail "the cell ended with $code"
  dev=
  left=$(grep -lsaF "$dir/cell" /proc/[0-9]*/cmdline 2>/dev/null || true)
  [[ -z $left ]] || fail "processes are left: $left"
  [[ ! -s $dir/log ]] || { echo "its log:"; cat "$dir/log"; }
  echo "the cell has ended, and nothing of it is left"
}
