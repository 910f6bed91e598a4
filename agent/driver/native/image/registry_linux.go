package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/ohmcell/ohm/agent/driver/registry"
)

// ErrAway says that a registry did not answer as it should: the next try may be luckier.
var ErrAway = errors.New("the registry does not answer")

// pulled is an image in a registry.
type pulled struct {
	ctx     context.Context
	fetcher remotes.Fetcher
	top     imagespec.Descriptor
}

// openRegistry finds an image.
func openRegistry(ctx context.Context, ref string, auth registry.Auth) (*pulled, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBroken, err)
	}
	resolver := registry.Resolver(auth)
	name, top, err := resolver.Resolve(ctx, named.String())
	if err != nil {
		return nil, kindOf(err)
	}
	fetcher, err := resolver.Fetcher(ctx, name)
	if err != nil {
		return nil, kindOf(err)
	}
	return &pulled{ctx, fetcher, top}, nil
}

// kindOf says by an error of this package or of fs what a registry's error means.
func kindOf(err error) error {
	switch meaning := registry.Meaning(err); {
	case meaning != nil:
		return fmt.Errorf("%w: %v", meaning, err)
	case errdefs.IsInvalidArgument(err):
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// index is what the reference names: an index or a manifest, as it was resolved.
func (r *pulled) index() ([]byte, error) {
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

func (r *pulled) blob(d descriptor) (io.ReadCloser, error) {
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

func (r *pulled) Close() error { return nil }

// body says of a download that breaks off that it may be tried again.
type body struct{ io.ReadCloser }

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrAway, err)
	}
	return n, err
}
