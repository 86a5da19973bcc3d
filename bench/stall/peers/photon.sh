#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# photon.sh FOLDER: builds Photon's library and photon.cc, into FOLDER/photon. What is there already
# is not built again.
#
# The sources are fetched with git into FOLDER, at one release. PHOTON in the environment is the
# repository to fetch them from, such as a clone on a machine without a network. It needs cmake,
# libaio, OpenSSL and zlib; `scripts/setup test` and `scripts/setup bench` install them.
set -eu

from=${PHOTON:-https://github.com/alibaba/PhotonLibOS}
release=v0.9.4 commit=564e94a1ed398093389901d7970ad3f47641372c

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: photon.sh FOLDER}
mkdir -p "$folder"
cd "$folder"
if [ "$(git -C source rev-parse --verify --quiet HEAD 2>/dev/null)" != "$commit" ]; then
	rm -rf source
	GIT_TERMINAL_PROMPT=0 git -c advice.detachedHead=false clone --quiet --depth 1 \
		--branch "$release" "$from" source
	if [ "$(git -C source rev-parse HEAD)" != "$commit" ]; then
		echo "photon.sh: $release of $from is another commit than $commit" >&2
		rm -rf source
		exit 1
	fi
fi
if [ ! -e build/complete ]; then
	cmake -S source -B build -DCMAKE_BUILD_TYPE=Release -DPHOTON_ENABLE_LIBCURL=OFF \
		-DCMAKE_CXX_FLAGS=-w
	cmake --build build -j "${JOBS:-$(nproc)}" --target photon_static easy_weak fstack_weak
	touch build/complete
fi
"${CXX:-g++}" -O2 -std=c++17 -o photon.new "$here/photon.cc" -I source/include \
	build/output/libphoton_sole.a build/output/libeasy_weak.a build/output/libfstack_weak.a \
	-laio -lssl -lcrypto -lz -lpthread -lrt -ldl
mv photon.new photon
