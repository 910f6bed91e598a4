package registry

import (
	"errors"
	"io/fs"
	"net/http"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
)

// Resolver finds registries: by http on this machine itself, by https elsewhere.
func Resolver(a Auth) remotes.Resolver {
	return docker.NewResolver(docker.ResolverOptions{Hosts: docker.ConfigureDefaultRegistries(
		docker.WithPlainHTTP(docker.MatchLocalhost), docker.WithAuthorizer(docker.NewDockerAuthorizer(docker.WithAuthCreds(a.For))),
	)})
}

// Meaning is what a registry's error means: fs.ErrPermission where it does not give the image,
// fs.ErrNotExist where it has none of that name; nil: the next try may be luckier.
func Meaning(err error) error {
	var status remoteerrors.ErrUnexpectedStatus
	code := 0
	if errors.As(err, &status) {
		code = status.StatusCode
	}
	switch {
	case errors.Is(err, docker.ErrInvalidAuthorization), code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fs.ErrPermission
	case errdefs.IsNotFound(err), code == http.StatusNotFound:
		return fs.ErrNotExist
	}
	return nil
}
