package native

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
)

// runHook runs a hook on a root that is mounted at a place in the bundle, as an OCI runtime
// would. This process is in the container's namespaces, and has given up nothing yet.
func runHook(h driver.Hook, bundle, at string) error {
	config := specs.Spec{Version: specs.Version, Root: &specs.Root{Path: at}}
	if err := folder.Write(filepath.Join(bundle, "config.json"), config); err != nil {
		return err
	}
	state, err := json.Marshal(specs.State{
		Version: specs.Version, ID: filepath.Base(filepath.Dir(bundle)), Status: specs.StateCreating, Pid: os.Getpid(), Bundle: bundle,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(h.Timeout, driver.HookTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, h.Path)
	cmd.Args, cmd.Env, cmd.Dir = h.Arguments(), h.Env, bundle
	if cmd.Env == nil {
		cmd.Env = []string{} // not this process's own
	}
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(state), drain
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("hook %s: %w: %s", h.Path, err, strings.TrimSpace(string(said[:min(len(said), 1000)])))
	}
	return nil
}
