package process

import (
	"errors"
	"math"
	"testing"
)

func TestMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"machine":      {map[string]string{"/proc/meminfo": "MemTotal:  16 kB\nMemFree: 3 kB\n"}, 16 << 10},
		"group":        {map[string]string{"/proc/meminfo": "MemTotal: 16 kB\n", "/sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"no limit":     {map[string]string{"/proc/meminfo": "MemTotal: 16 kB\n", "/sys/fs/cgroup/memory.max": "max\n"}, 16 << 10},
		"nothing":      {nil, math.MaxInt64},
		"not a number": {map[string]string{"/proc/meminfo": "MemTotal: many kB\n"}, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			read := func(file string) ([]byte, error) {
				if text, ok := c.files[file]; ok {
					return []byte(text), nil
				}
				return nil, errors.New("no such file")
			}
			if got := memory(read); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
