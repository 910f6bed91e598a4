// Package registry is how drivers speak to registries of images: where a reference leads, with
// whose credentials, and what a registry's refusal means.
package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Auth is the path of a file with credentials of registries, in the form in which docker login
// and podman login write it (config.json, auth.json); empty: there are none. It is read for
// each registry that asks for credentials, so that what is changed in it holds from then on.
type Auth string

// file is what matters of such a file.
type file struct {
	Auths map[string]struct {
		Auth          string `json:"auth"` // base64 of user:password
		Username      string `json:"username"`
		Password      string `json:"password"`
		IdentityToken string `json:"identitytoken"` // in a password's place, to get tokens by
	} `json:"auths"`
	Store   string            `json:"credsStore"`
	Helpers map[string]string `json:"credHelpers"`
}

func (a Auth) read() (file, error) {
	var f file
	data, err := os.ReadFile(string(a))
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		// Not as its own kind: that the file is missing says nothing of an image.
		return f, fmt.Errorf("credentials of registries: %v", err)
	}
	return f, nil
}

// Check says whether the file can be used, and all of it.
func (a Auth) Check() error {
	if a == "" {
		return nil
	}
	f, err := a.read()
	if err != nil {
		return err
	}
	if f.Store != "" || len(f.Helpers) > 0 {
		return fmt.Errorf("%s names programs that keep credentials (credsStore, credHelpers), which an agent does not run: it must hold them itself", a)
	}
	for name := range f.Auths {
		if _, _, err := f.of(hostOf(name)); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		if host, rest, _ := strings.Cut(withoutScheme(name), "/"); rest != "" && host != dockerIndex && rest != "v1/" && rest != "v2/" {
			return fmt.Errorf("%s: %q is more than a registry's host: credentials go by host", a, name)
		}
	}
	return nil
}

// For are the credentials for a registry's host; all empty: there are none. With a secret and no
// user the secret is an identity token.
func (a Auth) For(host string) (user, secret string, err error) {
	if a == "" {
		return "", "", nil
	}
	f, err := a.read()
	if err != nil {
		return "", "", err
	}
	return f.of(host)
}

// Docker Hub's host, and the name that it has in such files.
const (
	dockerHub   = "registry-1.docker.io"
	dockerIndex = "index.docker.io"
)

func withoutScheme(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
}

// hostOf is the registry's host of which an entry of the file is.
func hostOf(name string) string {
	host, _, _ := strings.Cut(withoutScheme(name), "/")
	if host == dockerIndex || host == "docker.io" {
		return dockerHub
	}
	return host
}

func (f file) of(host string) (user, secret string, err error) {
	for name, e := range f.Auths {
		if hostOf(name) != host {
			continue
		}
		switch {
		case e.IdentityToken != "":
			return "", e.IdentityToken, nil
		case e.Username != "":
			return e.Username, e.Password, nil
		case e.Auth == "":
			continue
		}
		text, err := base64.StdEncoding.DecodeString(e.Auth)
		user, secret, ok := strings.Cut(string(text), ":")
		if err != nil || !ok {
			return "", "", fmt.Errorf("the credentials for %s are not user:password in base64", name)
		}
		return user, strings.TrimRight(secret, "\x00"), nil
	}
	return "", "", nil
}
