package driver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DefaultPath is the PATH of a program if neither its task nor its image brings one.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment is what an image names, as NAME=value, overlaid with env, with a PATH and a
// HOME; sorted by name.
func Environment(image []string, env map[string]string, home string) []string {
	all := map[string]string{"PATH": DefaultPath, "HOME": home}
	for _, line := range image {
		if name, value, ok := strings.Cut(line, "="); ok {
			all[name] = value
		}
	}
	maps.Copy(all, env)
	list := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

// CommandOf is what a container runs whose image names an entrypoint and a command. A task's
// command is all of it: an image's entrypoint is not put before it.
func CommandOf(c Container, entrypoint, command []string) ([]string, error) {
	if len(c.Command) > 0 {
		return c.Command, nil
	}
	all := slices.Concat(entrypoint, command)
	if len(all) == 0 || all[0] == "" {
		return nil, fmt.Errorf("neither the task nor the image %s names a command", c.Image)
	}
	return all, nil
}

// InitMessage says that the end of a task is that of one of its init containers.
func InitMessage(name string) string { return fmt.Sprintf("init container %s ended so", name) }

// AtMessage says how far a task of several containers has come that is only starting.
func AtMessage(last string) string {
	return fmt.Sprintf("container %s was started last, the main one is yet to come", last)
}

// ErrKilledEarly is why a task does not start, or does not go on to its next container, that
// was killed meanwhile.
var ErrKilledEarly = errors.New("killed while it started")
