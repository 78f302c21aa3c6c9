//go:build tools

// Package manifests names the programs that render the manifests in deploy/, so that one go.sum pins them.
package manifests

import (
	_ "helm.sh/helm/v3/cmd/helm"
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
