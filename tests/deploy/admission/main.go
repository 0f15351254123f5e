// Admits a pod as an API server would: the policy is the first argument, the pod stdin, what becomes of
// it stdout. The condition and the patch are compiled and run by the server's own packages.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var policy v1.MutatingAdmissionPolicy
	text, err := os.ReadFile(os.Args[1])
	must(err)
	must(yaml.UnmarshalStrict(text, &policy))
	var pod corev1.Pod
	text, err = io.ReadAll(os.Stdin)
	must(err)
	must(yaml.UnmarshalStrict(text, &pod))
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	must(err)
	scheme := runtime.NewScheme()
	must(corev1.AddToScheme(scheme))
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	var object runtime.Object = &pod
	for _, m := range policy.Spec.Mutations {
		c := &patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}
		e := compiler.CompileMutatingEvaluator(c, cel.OptionalVariableDeclarations{HasPatchTypes: true}, environment.StoredExpressions)
		attrs := admission.NewAttributesRecord(object, nil, gvk, pod.Namespace, pod.Name, gvr, "", admission.Create, nil, false, nil)
		va := &admission.VersionedAttributes{Attributes: attrs, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(nil)}
		object, err = patch.NewJSONPatcher(e).Patch(context.Background(), patch.Request{MatchedResource: gvr, VersionedAttributes: va, ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme)}, celconfig.RuntimeCELCostBudget)
		must(err)
	}
	out, err := json.MarshalIndent(object, "", " ")
	must(err)
	fmt.Println(string(out))
}
