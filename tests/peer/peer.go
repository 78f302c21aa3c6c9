//go:build tools

// Package peer names the real programs that Ferrule is compared with, so that one go.sum pins them.
//
// Nothing here is linked into Ferrule; scripts/peer-check builds the program into a cache outside the tree.
package peer

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
)
