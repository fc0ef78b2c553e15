#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
setup_begin dev.sh build test -- "$@"
setup_installation
setup_build "-Wall -Wextra -Werror -Wno-sign-compare -Wno-unused-parameter" >/tmp/devbuild.$$ 2>&1 || { grep -E 'error|warning' /tmp/devbuild.$$; exit 1; }
setup_cluster
bash -c "$1"
setup_end
