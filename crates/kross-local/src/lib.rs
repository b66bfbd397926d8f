//! Turns a name into a running local control plane: real etcd and kube-apiserver.
