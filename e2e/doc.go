// Package e2e tests Ohm from outside: real processes of the one binary, real tasks, a
// real store, and kill -9. It asserts from what the command line prints and from what the
// kernel knows (processes, cgroups, mounts), and ends every process that it started, by
// its pid. Only what needs several processes is tested here; all else stands beside the
// code.
package e2e
