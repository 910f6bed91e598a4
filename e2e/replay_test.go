package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestReplay replays a small record: every task finds its place, and what is printed has
// the documented fields.
func TestReplay(t *testing.T) {
	dir := t.TempDir()
	nodes := filepath.Join(dir, "nodes.csv")
	tasks := filepath.Join(dir, "tasks.csv")
	write(t, nodes, "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,8192,0,\nn2,8000,8192,2,T4\nn3,8000,8192,1,P100\n")
	write(t, tasks, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"+
		"a,1000,1024,0,0,,LS\nb,1000,1024,1,500,T4,BE\nc,1000,1024,2,1000,,LS\nd,1000,1024,1,1000,T4|P100,Burstable\ne,64000,1024,0,0,,BE\n")
	got := replay(t, nodes, tasks)
	for field, want := range map[string]any{
		"nodes": 3.0, "submitted": 5.0, "placed": 3.0, "refused": 2.0, "schedulers": 3.0, "violations": 0.0, "model_violations": 0.0,
	} {
		// c needs both T4, b a part of one: whoever comes first keeps the other out, and e fits nowhere.
		if got[field] != want {
			t.Errorf("%s is %v, want %v", field, got[field], want)
		}
	}
	for _, field := range []string{"first_refused", "gpu_allocated_percent", "cpu_allocated_percent", "conflicts", "conflicts_per_commit", "placements_per_second", "seconds"} {
		if _, ok := got[field]; !ok {
			t.Errorf("%s is missing in %v", field, got)
		}
	}
}

// TestReplayOpenb replays the real trace, as a whole and with constraints on models.
func TestReplayOpenb(t *testing.T) {
	folder := os.Getenv("OHM_TRACES")
	if folder == "" {
		t.Skip("TestReplayOpenb needs real traces: set OHM_TRACES")
	}
	for _, list := range []string{"default", "gpuspec10"} {
		t.Run(list, func(t *testing.T) {
			got := replay(t, filepath.Join(folder, "openb", "openb_node_list_all_node.csv"), filepath.Join(folder, "openb", "openb_pod_list_"+list+".csv"))
			if got["nodes"] != 1523.0 || got["submitted"] != 8152.0 || got["violations"] != 0.0 || got["model_violations"] != 0.0 {
				t.Errorf("replay says %v", got)
			}
			if gpus, ok := got["gpu_allocated_percent"].(float64); !ok || gpus < 94 {
				t.Errorf("%v%% of the GPUs are allocated, want 94", got["gpu_allocated_percent"])
			}
		})
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replay runs a replay with three scheduler processes and returns what it prints.
func replay(t *testing.T, nodes, tasks string) map[string]any {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "ohm"), "replay", "--nodes", nodes, "--tasks", tasks, "--schedulers", "3", "-o", "json")
	cmd.Env = environment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("replay: %v\n%s", err, stderr.Bytes())
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return got
}
