//go:build tools

// Package etcd names the store behind the API server of the tests, so that one go.sum pins it.
//
// It is a module of its own because its requirements differ from those of Kubernetes.
package etcd

import (
	_ "go.etcd.io/etcd/server/v3"
)
