# SPDX-License-Identifier: MIT
#
# The install rules: the libraries, the headers, the CMake package, a .pc file for each library, gdb's
# script, the relay, sennit-run, sennit-trace and sennit-tls-check. A variant (SennitVariant.cmake)
# installs only what the normal build does not have: its libraries, its targets for the CMake package
# and its .pc file.
#
# Every rule names a component, so that a package can be made of each. docs/install.md lists them;
# the test packaging/components checks what is in them. The libraries that need another project's
# have components of their own.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sennit)

# A .pc file derives its prefix from its own location, so that an installed tree can be moved. An
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

# Builds all that is installed, and neither tests nor examples. An installed target that is missing
# here fails the test packaging/install.
add_custom_target(sennit-installed)
foreach(library sennit-clock-preload sennit-lock-check sennit-run-library)
	if(TARGET ${library})
		add_dependencies(sennit-installed ${library})
	endif()
endforeach()

# Installs the static and the shared libraries as one export of the CMake package, in the components
# <prefix>runtime and <prefix>development.
#   sennit_install_libraries(<export> <prefix> <library>...)
function(sennit_install_libraries export prefix)
	list(TRANSFORM ARGN REPLACE ".+" "\\0-static;\\0-shared")
	add_dependencies(sennit-installed ${ARGN})
	install(TARGETS ${ARGN} EXPORT ${export}
		ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${prefix}development
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${prefix}runtime
		NAMELINK_COMPONENT ${prefix}development)
	install(EXPORT ${export} NAMESPACE sennit:: FILE ${export}-targets.cmake
		DESTINATION ${package_dir} COMPONENT ${prefix}development)
endfunction()

# Installs <name>.pc, with these fields. LIBS is -l<name> by default, COMPONENT development.
function(sennit_install_pc name)
	cmake_parse_arguments(PARSE_ARGV 1 arg ""
		"COMPONENT;DESCRIPTION;REQUIRES;REQUIRES_PRIVATE;CFLAGS;LIBS;LIBS_PRIVATE" "")
	if(NOT arg_LIBS)
		set(arg_LIBS -l${name})
	endif()
	if(NOT arg_COMPONENT)
		set(arg_COMPONENT development)
	endif()
	configure_file(cmake/sennit.pc.in ${name}.pc @ONLY)
	# Removes the fields that are empty.
	file(STRINGS ${PROJECT_BINARY_DIR}/${name}.pc lines REGEX "[^ ]$")
	list(JOIN lines "\n" lines)
	file(WRITE ${PROJECT_BINARY_DIR}/${name}.pc "${lines}\n")
	install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
		COMPONENT ${arg_COMPONENT})
endfunction()

# Installs a program with its manual pages, also of its configuration file, and its completions for
# bash, and for zsh and fish if there are some.
function(sennit_install_program name component)
	if(NOT TARGET ${name})
		return()
	endif()
	set(VERSION ${PROJECT_VERSION})
	configure_file(packaging/${name}.1 ${name}.1 @ONLY)
	add_dependencies(sennit-installed ${name})
	install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
	install(FILES ${PROJECT_BINARY_DIR}/${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
		COMPONENT ${component})
	if(EXISTS ${PROJECT_SOURCE_DIR}/packaging/${name}.toml.5)
		configure_file(packaging/${name}.toml.5 ${name}.toml.5 @ONLY)
		install(FILES ${PROJECT_BINARY_DIR}/${name}.toml.5
			DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT ${component})
	endif()
	install(FILES packaging/${name}.bash RENAME ${name}
		DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
		COMPONENT ${component})
	if(EXISTS ${PROJECT_SOURCE_DIR}/packaging/${name}.zsh)
		install(FILES packaging/${name}.zsh RENAME _${name}
			DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
			COMPONENT ${component})
	endif()
	if(EXISTS ${PROJECT_SOURCE_DIR}/packaging/${name}.fish)
		install(FILES packaging/${name}.fish
			DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
			COMPONENT ${component})
	endif()
endfunction()

# gdb loads a script automatically if its path, below one of gdb's auto-load folders, is the path of
# a library in the process. <prefix>/share/gdb/auto-load is such a folder for a gdb with the same
# prefix. The prefix is known only at install time; an absolute library folder is used as it is.
install(CODE "set(libdir \"${CMAKE_INSTALL_LIBDIR}\")
	cmake_path(ABSOLUTE_PATH libdir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
	set(datadir \"${CMAKE_INSTALL_DATADIR}\")
	cmake_path(ABSOLUTE_PATH datadir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
	file(INSTALL DESTINATION \"\${datadir}/gdb/auto-load\${libdir}\" TYPE FILE
		RENAME \"$<TARGET_FILE_NAME:sennit-shared>-gdb.py\"
		FILES \"${PROJECT_SOURCE_DIR}/tools/gdb/sennit.py\")"
	COMPONENT development)

set(libraries sennit)
if(NOT SENNIT_VARIANT)
	list(APPEND libraries sennit-clock)
	if(TARGET sennit-hooks-static)
		list(APPEND libraries sennit-hooks)
	endif()
endif()
sennit_install_libraries(sennit${sennit_suffix} "" ${libraries})
# A .pc file cannot ask the user's compiler, so it has the flag if the library's compiler has it on
# this architecture.
set(pc_stack_clash)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^arm" AND SENNIT_HAS_STACK_CLASH_PROTECTION)
	set(pc_stack_clash " -fstack-clash-protection")
endif()
set(pc_description "${PROJECT_DESCRIPTION}")
if(SENNIT_VARIANT)
	string(APPEND pc_description " (the ${SENNIT_VARIANT} build)")
endif()
list(TRANSFORM sennit_variant_options PREPEND " " OUTPUT_VARIABLE pc_options)
string(CONCAT pc_options ${pc_options})
list(TRANSFORM SENNIT_ARCH_LIBRARIES PREPEND " -l" OUTPUT_VARIABLE pc_libraries)
string(CONCAT pc_libraries ${pc_libraries})
sennit_install_pc(sennit${sennit_suffix} DESCRIPTION "${pc_description}"
	CFLAGS "${pc_stack_clash}${pc_options}" LIBS "-lsennit${sennit_suffix}${pc_options}"
	LIBS_PRIVATE "-pthread${pc_libraries}")
if(SENNIT_VARIANT)
	return()
endif()

# The libraries are of one version.
set(pc_sennit "sennit = ${PROJECT_VERSION}")
sennit_install_pc(sennit-clock
	DESCRIPTION "Clocks through the vDSO and off the processor's counter, without a runtime")
if(TARGET sennit-hooks-static)
	sennit_install_pc(sennit-hooks REQUIRES "${pc_sennit}"
		DESCRIPTION "The C library's blocking calls park sennit's tasks"
		LIBS "-Wl,--push-state,--no-as-needed -lsennit-hooks -Wl,--pop-state" LIBS_PRIVATE -ldl)
endif()
install(DIRECTORY include/sennit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
	FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN gc.h EXCLUDE
	PATTERN tls.h EXCLUDE PATTERN tls.hpp EXCLUDE)
# These libraries have exports of their own, because not every package has them.
if(TARGET sennit-gc-static)
	sennit_install_libraries(sennit-gc gc- sennit-gc)
	install(FILES include/sennit/gc.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sennit
		COMPONENT gc-development)
	sennit_install_pc(sennit-gc COMPONENT gc-development
		REQUIRES "${pc_sennit}, bdw-gc >= 8.2" LIBS_PRIVATE -pthread
		DESCRIPTION "The Boehm collector in programs whose code runs in sennit's tasks")
endif()
if(TARGET sennit-tls-static)
	sennit_install_libraries(sennit-tls tls- sennit-tls)
	install(FILES include/sennit/tls.h include/sennit/tls.hpp
		DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sennit COMPONENT tls-development)
	sennit_install_pc(sennit-tls COMPONENT tls-development
		REQUIRES "${pc_sennit}" REQUIRES_PRIVATE "openssl >= 3.0"
		LIBS_PRIVATE -pthread DESCRIPTION "TLS on sennit's streams, by OpenSSL 3")
endif()

configure_package_config_file(cmake/sennit-config.cmake.in sennit-config.cmake
	INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(sennit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
	${CMAKE_CURRENT_BINARY_DIR}/sennit-config.cmake
	${CMAKE_CURRENT_BINARY_DIR}/sennit-config-version.cmake
	cmake/SennitStackClash.cmake
	DESTINATION ${package_dir} COMPONENT development)
install(FILES tools/gdb/sennit.py DESTINATION ${CMAKE_INSTALL_DATADIR}/sennit COMPONENT development)
# The library's manual pages, if `make docs` has made them.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/build/docs/man/man3
	DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT docs OPTIONAL)
sennit_install_program(sennit-relay relay)
foreach(program sennit-run sennit-trace sennit-tls-check)
	sennit_install_program(${program} tools)
endforeach()
if(TARGET sennit-relay)
	install(FILES packaging/grafana-dashboard.json packaging/sennit-relay.rules.yml
		DESTINATION ${CMAKE_INSTALL_DATADIR}/sennit-relay COMPONENT relay)
endif()
