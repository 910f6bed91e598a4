package hack

import (
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/hashicorp/go-memdb"
	_ "github.com/oklog/ulid/v2"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/soheilhy/cmux"
	_ "github.com/spf13/cobra"
	_ "github.com/spf13/cobra/doc"
	_ "github.com/spf13/viper"
	_ "go.etcd.io/etcd/client/v3"
	_ "go.etcd.io/etcd/server/v3/embed"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "pgregory.net/rapid"
	_ "github.com/rogpeppe/go-internal/testscript"
)
