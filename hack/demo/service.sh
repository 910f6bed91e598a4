#!/usr/bin/env bash
# A service and its updates: a version that is well comes to all tasks, step by step; the next one
# never gets ready, and the job goes back by itself. `make demo-service` builds bin/ohm and calls
# this. It exits with 0 only if all of it went as it says.
set -euo pipefail
cd "$(dirname "$0")/../.."
source hack/demo/cell.sh

# page N is what task N of the shop serves.
page() {
  local port
  port=$(ohm task list shop -o json | sed 's/},{"namespace"/\n/g' | grep "shop/web/$1" | grep '"state":"Running"' | sed -n 's/.*"name":"http","number":\([0-9]*\).*/\1/p')
  busybox wget -q -O - "http://127.0.0.1:$port/index.html"
}

start_cell

title "The first version"
show ohm run examples/service/v1.yaml --wait --timeout 60s
show ohm task list
show page 0

title "A second one that is well: another greeting"
sed 's/GREETING: hello/GREETING: good morning/' examples/service/v1.yaml >"$dir/greeting.yaml"
show ohm run "$dir/greeting.yaml" --wait --timeout 60s
for n in 0 1 2; do
  [[ $(page "$n") == "good morning from shop/web/$n" ]] || fail "task $n serves $(page "$n")"
done
show page 0
show ohm task list
before=$(pids | sort)

title "A third one that never gets ready"
code=0
show ohm run examples/service/v2.yaml --wait --timeout 60s || code=$?
((code == 8)) || fail "an update that is rolled back ends with 8, not $code"
show ohm status shop

title "The second one is back, and its tasks are the same processes"
within 30 "three tasks run, and none beside" sh -c "[ \$(bin/ohm task list -o json | grep -o '\"state\":\"Running\"' | wc -l) = 3 ]"
show ohm task list
[[ $(pids | sort) == "$before" ]] || fail "its tasks were $before, and are $(pids)"
for n in 0 1 2; do
  [[ $(page "$n") == "good morning from shop/web/$n" ]] || fail "task $n serves $(page "$n")"
done

audit_cell
end_cell 3
