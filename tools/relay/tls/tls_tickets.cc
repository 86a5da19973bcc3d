/* SPDX-License-Identifier: MIT */
#include "tls/tls_tickets.hpp"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring> /* explicit_bzero() */
#include <string_view>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace relay
{
namespace
{

constexpr std::int64_t seconds_of_a_key = 24 * 60 * 60;

} // namespace

tls_tickets::~tls_tickets()
{
	for (auto &each : keys_)
		explicit_bzero(each.data(), each.size());
}

tls_tickets::key tls_tickets::make()
{
	key made;
	for (std::size_t have = 0; have < made.size();) {
		const ssize_t n = getrandom(made.data() + have, made.size() - have, 0);
		if (n < 0 && errno != EINTR)
			throw std::system_error(errno, std::generic_category(), "random bytes");
		have += n > 0 ? static_cast<std::size_t>(n) : 0;
	}
	return made;
}

void tls_tickets::take_over()
{
	const char *const text = std::getenv(tickets_variable);
	if (!text)
		return;
	const std::string_view digits(text);
	int fd = -1;
	const auto [rest, err] = std::from_chars(digits.data(), digits.data() + digits.size(), fd);
	const bool is_number = err == std::errc{} && rest == digits.data() + digits.size();
	unsetenv(tickets_variable);
	struct stat is {
	};
	if (!is_number || fd < 3 || fstat(fd, &is) != 0 || !S_ISREG(is.st_mode))
		return;
	const std::lock_guard lock(lock_);
	keys_.reserve(most_keys + 1);
	off_t at = sizeof made_;
	if (pread(fd, &made_, sizeof made_, 0) == static_cast<ssize_t>(sizeof made_))
		for (key each;
		     keys_.size() < most_keys &&
		     pread(fd, each.data(), each.size(), at) == static_cast<ssize_t>(each.size());
		     at += static_cast<off_t>(each.size()))
			keys_.push_back(each);
	close(fd);
}

std::vector<tls_tickets::key> tls_tickets::keys(std::uint64_t *generation) const
{
	const std::lock_guard lock(lock_);
	if (generation)
		*generation = generation_;
	if (keys_.empty()) {
		keys_.reserve(most_keys + 1); /* so that no key is left in freed memory */
		keys_.push_back(make());
	}
	return keys_;
}

std::uint64_t tls_tickets::generation() const
{
	const std::lock_guard lock(lock_);
	return generation_;
}

bool tls_tickets::renew(std::int64_t now)
{
	const std::lock_guard lock(lock_);
	if (made_ == 0 || now < made_) /* or the clock was set back */
		made_ = now;
	if (keys_.empty() || now - made_ < seconds_of_a_key)
		return false;
	keys_.insert(keys_.begin(), make());
	made_ = now;
	generation_++;
	if (keys_.size() > most_keys) {
		explicit_bzero(keys_.back().data(), key_size);
		keys_.pop_back();
	}
	return true;
}

int tls_tickets::to_hand_over() const
{
	const std::lock_guard lock(lock_);
	if (keys_.empty())
		return -1;
	const int fd = memfd_create("sennit-relay-tickets", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	bool is_written = write(fd, &made_, sizeof made_) == static_cast<ssize_t>(sizeof made_);
	for (const auto &each : keys_)
		is_written = is_written && write(fd, each.data(), each.size()) ==
						   static_cast<ssize_t>(each.size());
	if (is_written)
		return fd;
	close(fd);
	return -1;
}

} // namespace relay
