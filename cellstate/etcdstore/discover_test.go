package etcdstore

import (
	"reflect"
	"testing"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestWhatAServerSaysOfItsStore(t *testing.T) {
	unix, tcp := []string{"unix:///d/etcd.sock"}, []string{"a:2379", "b:2379"}
	for _, row := range []struct {
		name  string
		given Config
		said  *ohmv1.InfoResponse
		want  Config
	}{
		{"its limits come with it", Config{Sender: "me"}, &ohmv1.InfoResponse{Cell: "c", Etcd: unix, EtcdMaxTxnOps: 8192, EtcdMaxRequestBytes: 8 << 20},
			Config{Sender: "me", Cell: "c", Endpoints: unix, MaxTxnOps: 8192, MaxRequestBytes: 8 << 20}},
		{"an older server does not say them", Config{}, &ohmv1.InfoResponse{Cell: "c", Etcd: tcp}, Config{Cell: "c", Endpoints: tcp}},
		{"what is given stays", Config{Cell: "x", Endpoints: tcp, MaxTxnOps: 500}, &ohmv1.InfoResponse{Cell: "c", Etcd: unix},
			Config{Cell: "x", Endpoints: tcp, MaxTxnOps: 500}},
	} {
		if got := row.given.Discovered(row.said); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: got %+v, want %+v", row.name, got, row.want)
		}
	}
}
