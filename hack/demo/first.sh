#!/usr/bin/env bash
# A cell's first three minutes, from nothing to nothing: a job of each kind, a race of two
# schedulers, an explanation, an audit, a clean end. `make demo` builds bin/ohm and calls
# this. It exits with 0 only if all of it went as it says.
set -euo pipefail
cd "$(dirname "$0")/../.."
source hack/demo/cell.sh

start_cell
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

audit_cell
end_cell 3
