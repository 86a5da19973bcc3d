// SPDX-License-Identifier: MIT
//
// The vDSO reader finds the symbols in the images of real kernels, and no input makes it read
// outside of an image. The images are in buffers of exactly their size, so that AddressSanitizer
// notices a read past the end.

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <sys/auxv.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include <sennit/vdso.h>
}

namespace
{

struct Image {
	std::string file, version;
	std::vector<std::string> names;
};

const std::vector<Image> images = {
	{"x86_64-6.18",
	 "LINUX_2.6",
	 {"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu",
	  "__vdso_clock_getres", "__vdso_getrandom"}},
	{"i386-6.18",
	 "LINUX_2.6",
	 {"__vdso_clock_gettime", "__vdso_clock_gettime64", "__vdso_gettimeofday", "__vdso_time",
	  "__vdso_clock_getres"}},
	{"aarch64-6.1",
	 "LINUX_2.6.39",
	 {"__kernel_clock_gettime", "__kernel_gettimeofday", "__kernel_clock_getres",
	  "__kernel_rt_sigreturn"}},
	{"arm-6.1",
	 "LINUX_2.6",
	 {"__vdso_clock_gettime", "__vdso_clock_gettime64", "__vdso_gettimeofday",
	  "__vdso_clock_getres"}},
	// These two were made by fuzz/vdso/make, with the names and the layout of the kernels'. The
	// first is big-endian.
	{"s390x-made",
	 "LINUX_2.6.29",
	 {"__kernel_clock_gettime", "__kernel_gettimeofday", "__kernel_clock_getres",
	  "__kernel_getcpu"}},
	{"riscv64-made",
	 "LINUX_4.15",
	 {"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_clock_getres", "__vdso_getcpu"}},
};

std::vector<char> read(const std::string &name)
{
	std::ifstream in(std::string(SENNIT_VDSO_SEEDS "/") + name, std::ios::binary);

	EXPECT_TRUE(in) << name;
	return {std::istreambuf_iterator<char>(in), {}};
}

// A copy of an image, in a heap block of exactly its size.
class Opened
{
public:
	Opened(const std::vector<char> &bytes, size_t size)
	    : copy(new char[size ? size : 1]), size(size)
	{
		std::memcpy(copy.get(), bytes.data(), size);
		error = sn_vdso_open(&vdso, copy.get(), size);
	}
	explicit Opened(const std::vector<char> &bytes) : Opened(bytes, bytes.size()) {}

	// The offset of the symbol, or -1 if it is not found.
	long find(const char *version, const char *name) const
	{
		if (error < 0)
			return -1;
		auto *place = static_cast<char *>(sn_vdso_find(&vdso, version, name));
		if (!place)
			return -1;
		EXPECT_GT(place, copy.get());
		EXPECT_LT(place, copy.get() + size);
		return place - copy.get();
	}

	int error;

private:
	std::unique_ptr<char[]> copy;
	size_t size;
	struct sn_vdso vdso;
};

// Calls `change` with the tag of each entry of the dynamic section, which it may alter.
template <typename Change>
void change_tags(std::vector<char> &bytes, Change change)
{
	const bool wide = bytes[EI_CLASS] == ELFCLASS64, big = bytes[EI_DATA] == ELFDATA2MSB;
	auto shift = [&](size_t byte, size_t size) { return 8 * (big ? size - 1 - byte : byte); };
	auto word = [&](size_t at, size_t size) {
		uint64_t value = 0;
		for (size_t byte = 0; byte < size; byte++)
			value |= uint64_t{static_cast<unsigned char>(bytes[at + byte])}
				 << shift(byte, size);
		return value;
	};
	size_t headers = wide ? word(offsetof(Elf64_Ehdr, e_phoff), 8)
			      : word(offsetof(Elf32_Ehdr, e_phoff), 4);
	size_t count =
		word(wide ? offsetof(Elf64_Ehdr, e_phnum) : offsetof(Elf32_Ehdr, e_phnum), 2);
	size_t stride = wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);

	for (size_t i = 0; i < count; i++) {
		size_t at = headers + i * stride;
		if (word(at, 4) != PT_DYNAMIC)
			continue;
		at = wide ? word(at + offsetof(Elf64_Phdr, p_offset), 8)
			  : word(at + offsetof(Elf32_Phdr, p_offset), 4);
		for (size_t width = wide ? 8 : 4; word(at, width) != DT_NULL; at += 2 * width) {
			uint64_t tag = change(word(at, width));
			for (size_t byte = 0; byte < width; byte++)
				bytes[at + byte] = static_cast<char>(tag >> shift(byte, width));
		}
	}
}

// A tag that no reader looks for.
constexpr uint64_t unused_tag = DT_RELACOUNT;

std::vector<char> without(std::vector<char> bytes, std::initializer_list<uint64_t> tags)
{
	change_tags(bytes, [&](uint64_t tag) {
		for (uint64_t unwanted : tags)
			if (tag == unwanted)
				return unused_tag;
		return tag;
	});
	return bytes;
}

TEST(Image, HasTheSymbolsOfItsKernel)
{
	for (const Image &image : images) {
		Opened opened(read(image.file));

		ASSERT_EQ(opened.error, 0) << image.file;
		for (const std::string &name : image.names) {
			EXPECT_GT(opened.find(image.version.c_str(), name.c_str()), 0)
				<< image.file << name;
			EXPECT_GT(opened.find(nullptr, name.c_str()), 0) << image.file << name;
		}
	}
}

TEST(Image, LacksOtherSymbols)
{
	for (const Image &image : images) {
		Opened opened(read(image.file));
		std::string name = image.names[0];

		for (const char *other :
		     {"", "_", "nothing", "__vdso_", "__vdso_clock_gettime65", "LINUX_2.6"})
			EXPECT_EQ(opened.find(nullptr, other), -1) << image.file << other;
		// A prefix of the name, and the name with a suffix.
		EXPECT_EQ(opened.find(nullptr, name.substr(0, name.size() - 1).c_str()), -1);
		EXPECT_EQ(opened.find(nullptr, (name + "x").c_str()), -1);
	}
}

TEST(Image, ChecksTheVersion)
{
	for (const Image &image : images) {
		Opened opened(read(image.file));

		for (const char *version : {"", "LINUX", "LINUX_2.5", "LINUX_2.6.3",
					    "LINUX_2.6.390", "linux-vdso.so.1", "GLIBC_2.0"})
			EXPECT_EQ(opened.find(version, image.names[0].c_str()), -1)
				<< image.file << version;
	}
}

TEST(Image, IsSearchedWithoutVersions)
{
	for (const Image &image : images) {
		for (auto tags : {std::initializer_list<uint64_t>{DT_VERDEF},
				  {DT_VERSYM},
				  {DT_VERDEF, DT_VERSYM}}) {
			Opened opened(without(read(image.file), tags));

			EXPECT_GT(opened.find("anything", image.names[0].c_str()), 0) << image.file;
		}
	}
}

// Both hash tables give the same result, and either is enough. The images of 6.1 have only DT_HASH.
TEST(Image, IsSearchedByEitherHashTable)
{
	for (const Image &image : images) {
		std::vector<char> bytes = read(image.file);
		bool has_gnu = false;
		change_tags(bytes, [&](uint64_t tag) {
			has_gnu |= tag == DT_GNU_HASH;
			return tag;
		});
		Opened both(bytes), old(without(bytes, {DT_GNU_HASH})),
			gnu(without(bytes, {DT_HASH}));
		Opened neither(without(bytes, {DT_HASH, DT_GNU_HASH}));

		EXPECT_EQ(neither.error, -ENOEXEC);
		EXPECT_EQ(gnu.error, has_gnu ? 0 : -ENOEXEC);
		for (const std::string &name : image.names) {
			long place = both.find(image.version.c_str(), name.c_str());

			EXPECT_EQ(old.find(image.version.c_str(), name.c_str()), place) << name;
			if (has_gnu) {
				EXPECT_EQ(gnu.find(image.version.c_str(), name.c_str()), place)
					<< name;
			}
		}
	}
}

TEST(Image, TruncatedIsReadWithinBounds)
{
	for (const Image &image : images) {
		std::vector<char> bytes = read(image.file);

		for (size_t size = 0; size < bytes.size(); size++) {
			Opened opened(bytes, size);
			// Whether the symbol is still found depends on what is missing.
			for (const std::string &name : image.names)
				opened.find(image.version.c_str(), name.c_str());
		}
		EXPECT_EQ(Opened(bytes, 0).error, -ENOEXEC);
		EXPECT_EQ(Opened(bytes, 64).error, -ENOEXEC);
	}
}

TEST(Image, DamagedIsReadWithinBounds)
{
	std::mt19937 random(20240917); // the same damage in each run

	for (const Image &image : images) {
		const std::vector<char> sound = read(image.file);

		for (int round = 0; round < 3000; round++) {
			std::vector<char> bytes = sound;
			for (unsigned n = 1 + random() % 8; n > 0; n--) {
				// Mostly in the first kilobyte and a half, where the tables are.
				size_t at = random() % (random() % 4 ? 1536 : bytes.size());
				bytes[at] = static_cast<char>(random() % 3 ? random() : 0xff);
			}
			Opened opened(bytes);
			for (const std::string &name : image.names)
				opened.find(image.version.c_str(), name.c_str());
		}
	}
}

TEST(Image, OfAnotherFormatIsRejected)
{
	std::vector<char> bytes = read("x86_64-6.18");
	struct sn_vdso vdso;

	EXPECT_EQ(sn_vdso_open(&vdso, "no image at all, but long enough to have an ELF header in",
			       56),
		  -ENOEXEC);
	for (auto [at, value] : std::multimap<size_t, char>{
		     {0, 'x'}, {EI_CLASS, 3}, {EI_DATA, ELFDATA2MSB}, {EI_DATA, 3}}) {
		std::vector<char> other = bytes;
		other[at] = value;
		EXPECT_EQ(Opened(other).error, -ENOEXEC) << at;
	}
}

// Even at unaligned addresses.
TEST(Image, MayBeUnaligned)
{
	std::vector<char> bytes = read("x86_64-6.18"), shifted(bytes.size() + 1);
	struct sn_vdso vdso;

	std::memcpy(&shifted[1], bytes.data(), bytes.size());
	ASSERT_EQ(sn_vdso_open(&vdso, &shifted[1], bytes.size()), 0);
	EXPECT_NE(sn_vdso_find(&vdso, "LINUX_2.6", "__vdso_time"), nullptr);
}

// The image of the running process, compared with what the dynamic linker says.
TEST(Self, AgreesWithTheDynamicLinker)
{
	struct sn_vdso vdso;

	if (!getauxval(AT_SYSINFO_EHDR)) { // qemu-user
		EXPECT_EQ(sn_vdso_self(&vdso), -ENOENT);
		return;
	}
	ASSERT_EQ(sn_vdso_self(&vdso), 0);
	EXPECT_GE(vdso.size, 2048u);
	EXPECT_LE(vdso.size, 65536u);
	void *linker = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (!linker)
		linker = dlopen("linux-gate.so.1", RTLD_LAZY | RTLD_NOLOAD);
	ASSERT_NE(linker, nullptr) << dlerror();
	for (const char *name : {"__vdso_clock_gettime", "__vdso_clock_gettime64",
				 "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu",
				 "__vdso_clock_getres", "__vdso_getrandom", "__vdso_nothing"})
		EXPECT_EQ(sn_vdso_find(&vdso, "LINUX_2.6", name), dlvsym(linker, name, "LINUX_2.6"))
			<< name;
}

} // namespace
