# SPDX-License-Identifier: MIT
#
# What `cmake --install` puts where: both libraries, those of the clock alone, the headers, the CMake package, sennit.pc and
# the relay.
include(CMakePackageConfigHelpers)

install(TARGETS sennit-static sennit-shared sennit-clock-static sennit-clock-shared EXPORT sennit
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/sennit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN gc.h EXCLUDE)
if(TARGET sennit-gc-static)
	install(TARGETS sennit-gc-static sennit-gc-shared EXPORT sennit-gc
		ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
	install(FILES include/sennit/gc.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sennit)
endif()
if(TARGET sennit-relay)
	install(TARGETS sennit-relay RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sennit)
install(EXPORT sennit NAMESPACE sennit:: FILE sennit-targets.cmake DESTINATION ${package_dir})
if(TARGET sennit-gc-static)
	# Apart, as it is not of every package.
	install(EXPORT sennit-gc NAMESPACE sennit:: FILE sennit-gc-targets.cmake
		DESTINATION ${package_dir})
endif()
configure_package_config_file(cmake/sennit-config.cmake.in sennit-config.cmake
	INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(sennit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
	${CMAKE_CURRENT_BINARY_DIR}/sennit-config.cmake
	${CMAKE_CURRENT_BINARY_DIR}/sennit-config-version.cmake
	DESTINATION ${package_dir})

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
configure_file(cmake/sennit.pc.in sennit.pc @ONLY)
if(TARGET sennit-gc-static)
	configure_file(cmake/sennit-gc.pc.in sennit-gc.pc @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit-gc.pc
		DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sennit.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
