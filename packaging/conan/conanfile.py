# SPDX-License-Identifier: MIT
"""Conan 2's recipe. conandata.yml has the address and the checksum of the tarball."""
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rmdir


class SennitConan(ConanFile):
    name = "sennit"
    license = "MIT"
    description = "M:N tasks for C and C++: blocking code, one task per connection"
    topics = ("coroutines", "tasks", "fibers", "networking")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "with_tls": [True, False]}
    default_options = {"shared": False, "with_tls": False}

    def configure(self):
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def layout(self):
        cmake_layout(self, src_folder="src")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("sennit runs on Linux only")

    def requirements(self):
        if self.options.with_tls:
            self.requires("openssl/[>=3 <4]")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "RELAY", "TRACE", "BENCH", "GC", "TLS_CHECK",
                     "RUN_TOOL"):
            toolchain.cache_variables[f"SENNIT_{part}"] = "OFF"
        toolchain.cache_variables["SENNIT_TLS"] = "ON" if self.options.with_tls else "OFF"
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # Conan makes these files itself, and one kind of each library is enough.
        for folder in ("lib/cmake", "lib/pkgconfig", "share"):
            rmdir(self, os.path.join(self.package_folder, folder))
        for name in os.listdir(os.path.join(self.package_folder, "lib")):
            if name.endswith(".a") == bool(self.options.shared):
                os.unlink(os.path.join(self.package_folder, "lib", name))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "sennit")
        for name, target in (("sennit", "sennit"), ("clock", "clock"), ("hooks", "hooks"),
                             ("tls", "tls")):
            if name == "tls" and not self.options.with_tls:
                continue
            component = self.cpp_info.components[name]
            component.libs = ["sennit" if name == "sennit" else f"sennit-{name}"]
            component.set_property("cmake_target_name", f"sennit::{target}")
            component.set_property("pkg_config_name", component.libs[0])
            if name != "clock":
                component.system_libs = ["pthread", "dl"]
            if name in ("hooks", "tls"):
                component.requires = ["sennit"]
            if name == "tls":
                component.requires.append("openssl::ssl")
        self.cpp_info.components["sennit"].cflags = ["-fstack-clash-protection"]
        self.cpp_info.components["sennit"].cxxflags = ["-fstack-clash-protection"]
