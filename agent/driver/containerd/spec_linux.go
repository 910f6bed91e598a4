package containerd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
)

// Where a container finds what is the driver's. /run is a tmpfs of its own.
const (
	initTarget    = "/run/ohm/init"
	reportTarget  = "/run/ohm/report"
	scratchTarget = "/scratch"
)

// spec is how one container of the task is to run. network is a path of the network namespace
// that it is to join; empty: the node's.
func (d *Driver) spec(t driver.Task, c driver.Container, img client.Image, network string) client.NewContainerOpts {
	return client.WithNewSpec(func(ctx context.Context, cl oci.Client, box *containers.Container, s *oci.Spec) error {
		config, err := img.Spec(ctx)
		if err != nil {
			return err
		}
		command, err := driver.CommandOf(c, config.Config.Entrypoint, config.Config.Cmd)
		if err != nil {
			return err
		}
		list, err := caps(c.Box)
		if err != nil {
			return err
		}
		s.Process.Args = append([]string{initTarget, reportTarget}, command...)
		s.Process.Env = driver.Environment(config.Config.Env, c.Env, scratchTarget)
		if s.Process.Cwd = c.Dir; c.Dir == "" {
			s.Process.Cwd = config.Config.WorkingDir
		}
		if s.Process.Cwd == "" {
			s.Process.Cwd = scratchTarget
		}
		limit, err := openFiles()
		if err != nil {
			return err
		}
		s.Process.Rlimits = []specs.POSIXRlimit{limit}
		s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: list, Permitted: list, Effective: list}
		s.Root.Readonly = c.ReadOnlyRoot
		s.Linux.CgroupsPath = filepath.Join("/", d.cgroupName, hash(t.ID), box.ID)
		for _, h := range t.Hooks {
			if s.Hooks == nil {
				s.Hooks = &specs.Hooks{}
			}
			seconds := int(cmp.Or(h.Timeout, driver.HookTimeout) / time.Second)
			s.Hooks.CreateContainer = append(s.Hooks.CreateContainer, specs.Hook{Path: h.Path, Args: h.Arguments(), Env: h.Env, Timeout: &seconds})
		}
		for _, file := range t.DeviceFiles {
			s.Mounts = append(s.Mounts, bind(file, file, "ro"))
		}
		s.Mounts = append(s.Mounts, d.mounts(t.ID, c)...)
		opts := append(userOf(c, config.Config),
			networkOf(network), oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.CgroupNamespace}),
			seccomp.WithDefaultProfile(), // by the capabilities
		)
		for _, node := range t.DeviceNodes {
			opts = append(opts, oci.WithLinuxDevice(node, "rwm"))
		}
		return oci.ApplyOpts(ctx, cl, box, s, opts...)
	})
}

// networkOf has the container join a network; empty: the node's.
func networkOf(path string) oci.SpecOpts {
	if path == "" {
		return oci.WithHostNamespace(specs.NetworkNamespace)
	}
	return oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: path})
}

// userOf sets the user, with the groups that the image gives it.
func userOf(c driver.Container, image imagespec.ImageConfig) []oci.SpecOpts {
	user := c.User
	if user == "" {
		user = image.User
	}
	if user == "" {
		return []oci.SpecOpts{oci.WithAdditionalGIDs("root")}
	}
	return []oci.SpecOpts{func(ctx context.Context, cl oci.Client, box *containers.Container, s *oci.Spec) error {
		if err := oci.WithUser(user)(ctx, cl, box, s); err != nil {
			return fmt.Errorf("user %q: %w", user, err)
		}
		return nil
	}, func(ctx context.Context, cl oci.Client, box *containers.Container, s *oci.Spec) error {
		return oci.WithAdditionalGIDs(strconv.FormatUint(uint64(s.Process.User.UID), 10))(ctx, cl, box, s)
	}}
}

// openFiles is the agent's own limit: a higher one would be refused by the kernel, a lower
// one surprises programs that are used to it.
func openFiles() (specs.POSIXRlimit, error) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		return specs.POSIXRlimit{}, err
	}
	return specs.POSIXRlimit{Type: "RLIMIT_NOFILE", Hard: own.Max, Soft: min(own.Max, 1<<20)}, nil
}

// mounts are the container's own, and then the driver's, which nothing may hide.
func (d *Driver) mounts(id string, c driver.Container) []specs.Mount {
	var list []specs.Mount
	for _, name := range []string{"/etc/resolv.conf", "/etc/hosts"} { // what of the network is the node's
		if _, err := os.Stat(name); err == nil {
			list = append(list, bind(name, name, "ro"))
		}
	}
	list = append(list, bind(filepath.Join(d.folder(id), scratchDir), scratchTarget, "rw"))
	for _, m := range c.Mounts {
		how := "rw"
		if m.ReadOnly {
			how = "ro"
		}
		if m.Source != "" {
			list = append(list, bind(m.Source, m.Target, how))
			continue
		}
		options := []string{"nosuid", "nodev", "mode=1777", how}
		if m.Size > 0 {
			options = append(options, "size="+strconv.FormatInt(m.Size, 10))
		}
		list = append(list, specs.Mount{Destination: m.Target, Type: "tmpfs", Source: "tmpfs", Options: options})
	}
	return append(list, bind(d.init, initTarget, "ro"), bind(d.report(id, c.Name), reportTarget, "rw"))
}

func bind(source, target, how string) specs.Mount {
	return specs.Mount{Destination: target, Type: "bind", Source: source, Options: []string{"rbind", how, "nosuid", "nodev"}}
}
