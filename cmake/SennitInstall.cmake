# SPDX-License-Identifier: MIT
#
# What `cmake --install` puts where: both libraries, those of the clock alone, the headers, the
# CMake package, sennit.pc, sennit-clock.pc, gdb's script and the relay. Of a variant (SennitVariant.cmake) only what
# is not there with the normal build: its libraries, its targets for the CMake package and its .pc.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sennit)
set(sennit_exported sennit-static sennit-shared)
if(NOT SENNIT_VARIANT)
	list(APPEND sennit_exported sennit-clock-static sennit-clock-shared)
endif()
install(TARGETS ${sennit_exported} EXPORT sennit${sennit_suffix}
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT sennit${sennit_suffix} NAMESPACE sennit:: FILE sennit${sennit_suffix}-targets.cmake
	DESTINATION ${package_dir})

# gdb loads a script by itself whose path, below one of its folders, is that of the library in a
# process. Where that folder is: <prefix>/share/gdb/auto-load, so a gdb of the same prefix finds it.
# The prefix is known when this is installed; a library folder that is absolute is what it is.
install(CODE "set(libdir \"${CMAKE_INSTALL_LIBDIR}\")
	cmake_path(ABSOLUTE_PATH libdir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
	set(datadir \"${CMAKE_INSTALL_DATADIR}\")
	cmake_path(ABSOLUTE_PATH datadir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
	file(INSTALL DESTINATION \"\${datadir}/gdb/auto-load\${libdir}\" TYPE FILE
		RENAME \"$<TARGET_FILE_NAME:sennit-shared>-gdb.py\"
		FILES \"${PROJECT_SOURCE_DIR}/tools/gdb/sennit.py\")")

# sennit.pc finds its prefix from its own place, so that an installed tree can be moved. An absolute
# library or include folder stays what it is.
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
# A .pc file is static: what the compiler of the library has, for this architecture.
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
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit-clock.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY include/sennit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN gc.h EXCLUDE)
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
	# Apart, as it is not of every package.
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
# Those of the library, if `make docs` has made them.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/build/docs/man/man3
	DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
if(TARGET sennit-relay)
	install(TARGETS sennit-relay RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	set(VERSION ${PROJECT_VERSION})
	configure_file(packaging/sennit-relay.1 sennit-relay.1 @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit-relay.1
		DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
