/* SPDX-License-Identifier: MIT */
/* Random choices, amounts, stalls of the machine, and files. */
#include "harness.hpp"

#include "harness_failure.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sys/stat.h>
#include <unistd.h>

namespace harness
{
namespace
{

std::uint64_t number_in_environment(const char *name, std::uint64_t otherwise)
{
	const char *text = std::getenv(name);
	return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

} // namespace

stops::stops()
    : watching_([this](const std::stop_token &over) {
	      while (!over.stop_requested()) {
		      const auto before = std::chrono::steady_clock::now();
		      std::this_thread::sleep_for(10ms);
		      const auto took = std::chrono::steady_clock::now() - before;
		      longest_ = std::max<std::chrono::nanoseconds>(longest_, took);
		      looks_++;
	      }
      })
{
}

std::chrono::nanoseconds stops::longest() const
{
	/* The look in progress may have begun before the stall that the caller saw. */
	const unsigned before = looks_;
	while (looks_ - before < 2)
		std::this_thread::sleep_for(1ms);
	return longest_;
}

std::uint64_t seed()
{
	static const std::uint64_t value =
		number_in_environment("SENNIT_TEST_SEED", std::random_device()());
	return value;
}

std::size_t scaled(std::size_t full)
{
#ifdef SENNIT_TEST_SCALE
	constexpr std::uint64_t of_build = SENNIT_TEST_SCALE;
#else
	constexpr std::uint64_t of_build = 100;
#endif
	const auto percent = number_in_environment("SENNIT_TEST_SCALE", of_build);
	return std::max<std::size_t>(1, static_cast<std::size_t>(full * percent / 100));
}

std::string random_bytes(std::mt19937_64 &random, std::size_t size)
{
	std::string bytes(size, '\0');
	for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
		const std::uint64_t word = random();
		std::memcpy(&bytes[i], &word, std::min(sizeof word, size - i));
	}
	return bytes;
}

std::ostream &operator<<(std::ostream &out, ending how)
{
	return out << (how == ending::fin ? "FIN" : "reset");
}

folder::folder()
{
	const char *const parent = std::getenv("TMPDIR");
	name_ = std::string(parent ? parent : "/tmp") + "/sennit-relay-XXXXXX";
	if (!mkdtemp(name_.data()))
		fail_errno(name_);
}

folder::~folder()
{
	std::error_code error;
	std::filesystem::remove_all(name_, error);
}

std::uint64_t inode_of(const std::string &file)
{
	struct stat found {
	};
	return lstat(file.c_str(), &found) == 0 ? found.st_ino : 0;
}

file::file(const std::string &text)
{
	const char *const folder = std::getenv("TMPDIR");
	name_ = std::string(folder ? folder : "/tmp") + "/sennit-relay-XXXXXX";
	const int fd = mkstemp(name_.data());
	if (fd < 0)
		fail_errno(name_);
	::close(fd);
	write(text);
}

file::~file()
{
	unlink(name_.c_str());
}

void file::write(const std::string &text)
{
	std::ofstream out(name_, std::ios::trunc);
	out << text << std::flush;
	if (!out)
		fail("cannot write " + name_);
}

} // namespace harness
