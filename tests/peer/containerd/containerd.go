//go:build tools

// Package containerd names the container runtime of the cluster that upstream's tests run in, so that one go.sum pins it.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
