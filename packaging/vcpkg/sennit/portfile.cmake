# SPDX-License-Identifier: MIT
vcpkg_download_distfile(archive
	URLS "@URL@"
	FILENAME "sennit-${VERSION}.tar.xz"
	SHA512 "@SHA512@")
vcpkg_extract_source_archive(source ARCHIVE "${archive}")

vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES tls SENNIT_TLS)
vcpkg_cmake_configure(SOURCE_PATH "${source}"
	OPTIONS
		-DSENNIT_TESTS=OFF -DSENNIT_EXAMPLES=OFF -DSENNIT_RELAY=OFF -DSENNIT_TRACE=OFF
		-DSENNIT_BENCH=OFF -DSENNIT_GC=OFF -DSENNIT_TLS_CHECK=OFF -DSENNIT_RUN_TOOL=OFF
		${features})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME sennit CONFIG_PATH lib/cmake/sennit)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
