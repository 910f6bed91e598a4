package config

import (
	"github.com/spf13/pflag"
)

// DefaultAddress is where a server listens and where clients look for it.
const DefaultAddress = "127.0.0.1:7400"

// Client is what a client of a cell needs to know.
type Client struct {
	Address       string // host:port
	TokenFile     string // holds the token that is sent with each call; "": none
	TLS           bool   // speak TLS and trust what the machine trusts
	TLSCA         string // speak TLS and trust the certificates in this PEM file
	TLSServerName string // expected in the server's certificate; "": the address's host
	Namespace     string // "": default for one job, all of them in lists
}

// Flags adds the client's settings to flags.
func (c *Client) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Address, "address", DefaultAddress, "address of the cell's server")
	flags.StringVar(&c.TokenFile, "token-file", "", "file with the token to show to the server")
	flags.BoolVar(&c.TLS, "tls", false, "speak TLS, trusting what this machine trusts")
	flags.StringVar(&c.TLSCA, "tls-ca", "", "speak TLS, trusting the certificates in this PEM file")
	flags.StringVar(&c.TLSServerName, "tls-server-name", "", "name expected in the server's certificate, if not the host of --address")
	flags.StringVarP(&c.Namespace, "namespace", "n", "", "namespace of the jobs; not given: \"default\" for one job, all namespaces in lists")
	Settings(flags, "address", "token-file", "tls", "tls-ca", "tls-server-name", "namespace")
}
