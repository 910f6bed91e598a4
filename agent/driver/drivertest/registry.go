package drivertest

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// Registry serves one image, as some/image:1, on a port of this machine.
type Registry struct {
	Deny  atomic.Bool // whoever asks gets nothing
	Login *Login      // nil: whoever asks gets all
	files map[string][]byte
	asked atomic.Int64
}

// Login is what a registry asks for.
type Login struct {
	User, Secret string
	Token        bool // they are asked for by its /token alone, which gives out what the rest asks for
}

// token that /token gives out.
const token = "good for this image"

// admits says whether a request has what is asked for; if not, it says how to get it.
func (l *Login) admits(w http.ResponseWriter, req *http.Request) bool {
	user, secret, _ := req.BasicAuth()
	named := user == l.User && secret == l.Secret
	switch {
	case !l.Token && named, l.Token && req.Header.Get("Authorization") == "Bearer "+token:
		return true
	case !l.Token:
		w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
	case req.URL.Path == "/token" && named:
		_, _ = fmt.Fprintf(w, `{"token": %q}`, token) // whoever asked may be gone
		return false
	default:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="images"`, req.Host))
	}
	w.WriteHeader(http.StatusUnauthorized)
	return false
}

// NewRegistry makes one that At lets serve.
func NewRegistry(t testing.TB, image Image) *Registry {
	t.Helper()
	files, err := imageFiles(image)
	if err != nil {
		t.Fatal(err)
	}
	return &Registry{files: files}
}

// At serves until the test's end.
func (r *Registry) At(t testing.TB, listener net.Listener) {
	server := &http.Server{Handler: r}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-done })
}

// Listen listens until its user closes it.
func Listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.asked.Add(1)
	if r.Deny.Load() {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if r.Login != nil && !r.Login.admits(w, req) {
		return
	}
	rest, ok := strings.CutPrefix(req.URL.Path, "/v2/some/image/")
	kind, name, _ := strings.Cut(rest, "/")
	index := blobOf(typeIndex, r.files["index.json"])
	switch {
	case req.URL.Path == "/v2/":
	case !ok:
		http.NotFound(w, req)
	case kind == "manifests" && (name == "1" || name == index.Digest):
		w.Header().Set("Content-Type", typeIndex)
		w.Header().Set("Docker-Content-Digest", index.Digest)
		serve(w, req, index.data)
	default:
		data := r.files["blobs/sha256/"+strings.TrimPrefix(name, "sha256:")]
		if data == nil {
			http.NotFound(w, req)
			return
		}
		if kind == "manifests" {
			w.Header().Set("Content-Type", typeManifest)
			w.Header().Set("Docker-Content-Digest", name)
		} else {
			w.Header().Set("Content-Type", "application/octet-stream")
		}
		serve(w, req, data)
	}
}

func serve(w http.ResponseWriter, req *http.Request, data []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if req.Method != http.MethodHead {
		_, _ = w.Write(data) // whoever asked may be gone
	}
}
