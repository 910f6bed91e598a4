package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ErrAway says that a registry did not answer as it should: the next try may be luckier.
var ErrAway = errors.New("the registry does not answer")

// registry is an image in a registry.
type registry struct {
	ctx     context.Context
	fetcher remotes.Fetcher
	top     imagespec.Descriptor
}

// openRegistry finds an image: by http on this machine itself, by https elsewhere.
func openRegistry(ctx context.Context, ref string) (*registry, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBroken, err)
	}
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: docker.ConfigureDefaultRegistries(
		docker.WithPlainHTTP(docker.MatchLocalhost), docker.WithAuthorizer(docker.NewDockerAuthorizer()),
	)})
	name, top, err := resolver.Resolve(ctx, named.String())
	if err != nil {
		return nil, kindOf(err)
	}
	fetcher, err := resolver.Fetcher(ctx, name)
	if err != nil {
		return nil, kindOf(err)
	}
	return &registry{ctx, fetcher, top}, nil
}

// kindOf says by an error of this package or of fs what a registry's error means.
func kindOf(err error) error {
	var status remoteerrors.ErrUnexpectedStatus
	code := 0
	if errors.As(err, &status) {
		code = status.StatusCode
	}
	switch {
	case errors.Is(err, docker.ErrInvalidAuthorization), code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%w: %v", fs.ErrPermission, err)
	case errdefs.IsNotFound(err), code == http.StatusNotFound:
		return fmt.Errorf("%w: %v", fs.ErrNotExist, err)
	case errdefs.IsInvalidArgument(err):
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// index is what the reference names: an index or a manifest, as it was resolved.
func (r *registry) index() ([]byte, error) {
	d := descriptor{MediaType: r.top.MediaType, Digest: r.top.Digest.String(), Size: r.top.Size}
	from, err := r.blob(d)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := readAll(from, "what the reference names")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	if err := same(d.Digest, sum[:]); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBroken, err)
	}
	return data, nil
}

func (r *registry) blob(d descriptor) (io.ReadCloser, error) {
	sum, err := digest.Parse(d.Digest)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBroken, err)
	}
	from, err := r.fetcher.Fetch(r.ctx, imagespec.Descriptor{MediaType: d.MediaType, Digest: sum, Size: d.Size})
	if err != nil {
		return nil, kindOf(err)
	}
	return body{from}, nil
}

func (r *registry) Close() error { return nil }

// body says of a download that breaks off that it may be tried again.
type body struct{ io.ReadCloser }

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrAway, err)
	}
	return n, err
}
