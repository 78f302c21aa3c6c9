//go:build tools

// Package userspace names the last kube-proxy that has a userspace mode and can be built from its Go module, so that one go.sum
// pins it.
//
// Nothing here is linked into Ferrule; scripts/peer-build builds the program into a cache outside the tree.
package userspace

import _ "k8s.io/kubernetes/cmd/kube-proxy"
