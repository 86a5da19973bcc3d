# SPDX-License-Identifier: MIT
#
# The install rules: both libraries, the clock libraries, the hooks, the headers, the CMake package,
# sennit.pc and those of the others, gdb's script, the relay, sennit-trace and sennit-tls-check. A
# variant (SennitVariant.cmake) installs only what the normal build does not have: its libraries,
# its targets for the CMake package and its .pc file.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sennit)
set(sennit_exported sennit-static sennit-shared)
if(NOT SENNIT_VARIANT)
	list(APPEND sennit_exported sennit-clock-static sennit-clock-shared
		sennit-hooks-static sennit-hooks-shared)
endif()
install(TARGETS ${sennit_exported} EXPORT sennit${sennit_suffix}
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT sennit${sennit_suffix} NAMESPACE sennit:: FILE sennit${sennit_suffix}-targets.cmake
	DESTINATION ${package_dir})

# gdb loads a script automatically if its path, below one of gdb's auto-load folders, is the path of
# a library in the process. <prefix>/share/gdb/auto-load is such a folder for a gdb with the same
# prefix. The prefix is known only at install time; an absolute library folder is used as it is.
install(CODE "set(libdir \"${CMAKE_INSTALL_LIBDIR}\")
	cmake_path(ABSOLUTE_PATH libdir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
	set(datadir \"${CMAKE_INSTALL_DATADIR}\")
	cmake_path(ABSOLUTE_PATH datadir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
	file(INSTALL DESTINATION \"\${datadir}/gdb/auto-load\${libdir}\" TYPE FILE
		RENAME \"$<TARGET_FILE_NAME:sennit-shared>-gdb.py\"
		FILES \"${PROJECT_SOURCE_DIR}/tools/gdb/sennit.py\")")

# sennit.pc derives its prefix from its own location, so that an installed tree can be moved. An
# absolute library or include folder is used as it is.
cmake_path(SET pc_dir NORMALIZE "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${pc_dir} OUTPUT_VARIABLE pc_up)
foreach(dir LIBDIR INCLUDEDIR)
	if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
		set(pc_${dir} "${CMAKE_INSTALL_${dir}}")
	else()
		set(pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
	endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
	set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
	set(pc_prefix "\${pcfiledir}/${pc_up}")
endif()
# A .pc file is static, so it has the flag if the library's compiler has it on this architecture.
set(pc_stack_clash)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^arm" AND SENNIT_HAS_STACK_CLASH_PROTECTION)
	set(pc_stack_clash " -fstack-clash-protection")
endif()
set(pc_description "")
if(SENNIT_VARIANT)
	set(pc_description " (the ${SENNIT_VARIANT} build)")
endif()
list(TRANSFORM sennit_variant_options PREPEND " " OUTPUT_VARIABLE pc_options)
string(CONCAT pc_options ${pc_options})
configure_file(cmake/sennit.pc.in sennit${sennit_suffix}.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit${sennit_suffix}.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(SENNIT_VARIANT)
	return()
endif()

configure_file(cmake/sennit-clock.pc.in sennit-clock.pc @ONLY)
configure_file(cmake/sennit-hooks.pc.in sennit-hooks.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit-clock.pc
	${CMAKE_CURRENT_BINARY_DIR}/sennit-hooks.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY include/sennit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN gc.h EXCLUDE
	PATTERN tls.h EXCLUDE PATTERN tls.hpp EXCLUDE)
install(FILES tools/gdb/sennit.py DESTINATION ${CMAKE_INSTALL_DATADIR}/sennit)
configure_package_config_file(cmake/sennit-config.cmake.in sennit-config.cmake
	INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(sennit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
	${CMAKE_CURRENT_BINARY_DIR}/sennit-config.cmake
	${CMAKE_CURRENT_BINARY_DIR}/sennit-config-version.cmake
	cmake/SennitStackClash.cmake
	DESTINATION ${package_dir})
if(TARGET sennit-gc-static)
	# A separate export, because not every package has it.
	install(TARGETS sennit-gc-static sennit-gc-shared EXPORT sennit-gc
		ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
	install(EXPORT sennit-gc NAMESPACE sennit:: FILE sennit-gc-targets.cmake
		DESTINATION ${package_dir})
	install(FILES include/sennit/gc.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sennit)
	configure_file(cmake/sennit-gc.pc.in sennit-gc.pc @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit-gc.pc
		DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(TARGET sennit-tls-static)
	install(TARGETS sennit-tls-static sennit-tls-shared EXPORT sennit-tls
		ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
	install(EXPORT sennit-tls NAMESPACE sennit:: FILE sennit-tls-targets.cmake
		DESTINATION ${package_dir})
	install(FILES include/sennit/tls.h include/sennit/tls.hpp
		DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sennit)
	configure_file(cmake/sennit-tls.pc.in sennit-tls.pc @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit-tls.pc
		DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
# The library's manual pages, if `make docs` has made them.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/build/docs/man/man3
	DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
if(TARGET sennit-relay)
	install(TARGETS sennit-relay RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	set(VERSION ${PROJECT_VERSION})
	configure_file(packaging/sennit-relay.1 sennit-relay.1 @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit-relay.1
		DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
	install(FILES packaging/grafana-dashboard.json packaging/sennit-relay.rules.yml
		DESTINATION ${CMAKE_INSTALL_DATADIR}/sennit-relay)
	install(FILES packaging/sennit-relay.bash RENAME sennit-relay
		DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
if(TARGET sennit-trace)
	install(TARGETS sennit-trace RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	set(VERSION ${PROJECT_VERSION})
	configure_file(packaging/sennit-trace.1 sennit-trace.1 @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit-trace.1
		DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
	install(FILES packaging/sennit-trace.bash RENAME sennit-trace
		DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
if(TARGET sennit-tls-check)
	install(TARGETS sennit-tls-check RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	set(VERSION ${PROJECT_VERSION})
	configure_file(packaging/sennit-tls-check.1 sennit-tls-check.1 @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit-tls-check.1
		DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
	install(FILES packaging/sennit-tls-check.bash RENAME sennit-tls-check
		DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
