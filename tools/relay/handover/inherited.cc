/* SPDX-License-Identifier: MIT */
#include "handover/inherited.hpp"

#include "base/address.hpp"
#include "base/unnamed_file.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace relay
{
namespace
{

constexpr int first_from_manager = 3;

/* A larger number of listeners is a mistake. */
constexpr int most_from_manager = 4096;

/* The kernel's limit, MAX_ARG_STRLEN, where a page has 4 KiB. */
constexpr std::size_t longest_variable = 128 * 1024;
/* What an older version may find. It is less, because the sum of all variables has a limit, too,
 * which depends on that of the stack. */
constexpr std::size_t longest_decoy = 32 * 1024;

std::optional<std::uint64_t> to_large_number(std::string_view text)
{
	std::uint64_t number = 0;
	const auto [rest, err] = std::from_chars(text.data(), text.data() + text.size(), number);
	if (err != std::errc{} || rest != text.data() + text.size())
		return std::nullopt;
	return number;
}

std::optional<int> to_number(std::string_view text)
{
	const auto number = to_large_number(text);
	if (!number || *number > INT_MAX)
		return std::nullopt;
	return static_cast<int>(*number);
}

std::string take_variable(const char *name)
{
	const char *const value = std::getenv(name);
	std::string taken = value ? value : "";
	unsetenv(name);
	return taken;
}

/* Names can contain any bytes, so they are encoded as hexadecimal digits. */
std::string to_hex(std::string_view bytes)
{
	constexpr const char *digits = "0123456789abcdef";
	std::string text;
	for (const char c : bytes) {
		text += digits[static_cast<unsigned char>(c) >> 4];
		text += digits[static_cast<unsigned char>(c) & 15];
	}
	return text;
}

std::string from_hex(std::string_view text)
{
	std::string bytes;
	for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
		unsigned value = 0;
		std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
		bytes += static_cast<char>(value);
	}
	return bytes;
}

/* The address of a Unix socket as a configuration writes it; empty for other sockets. */
std::string unix_address_of(int fd)
{
	sockaddr_un at{};
	socklen_t size = sizeof at;
	constexpr std::size_t start = offsetof(sockaddr_un, sun_path);
	if (getsockname(fd, reinterpret_cast<sockaddr *>(&at), &size) < 0 ||
	    at.sun_family != AF_UNIX || size <= start)
		return "";
	std::string_view name(at.sun_path, std::min<std::size_t>(size, sizeof at) - start);
	if (name.front() == '\0')
		return "unix:@" + std::string(name.substr(1));
	return "unix:" + std::string(name.substr(0, name.find('\0')));
}

/* Takes the text before the separator, and removes both from the front of `text`. */
std::string_view take_until(std::string_view &text, char separator)
{
	const auto end = std::min(text.find(separator), text.size());
	const auto word = text.substr(0, end);
	text.remove_prefix(std::min(end + 1, text.size()));
	return word;
}

/* Whether a configured address with a numeric port is the bound one. */
bool means(std::string_view written, const ip_end &bound)
{
	const auto colon = written.rfind(':');
	const auto port = to_number(colon == written.npos ? "" : written.substr(colon + 1));
	if (!port || *port != bound.port || bound.port == 0)
		return false;
	std::string host(written.substr(0, colon));
	if (host.empty())
		return bound.ip.bytes == ip_address().bytes; /* every address of the machine */
	const bool is_ipv6 = host.starts_with('[');
	if (is_ipv6)
		host = host.substr(1, host.size() - 2);
	unsigned char bytes[16];
	return inet_pton(is_ipv6 ? AF_INET6 : AF_INET, host.c_str(), bytes) == 1 &&
	       to_ip(bytes, is_ipv6) == bound.ip;
}

bool is_datagram(int fd)
{
	int type = 0;
	socklen_t size = sizeof type;
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
}

/* The file at the address of a Unix socket that has a path. */
std::optional<file_id> file_at(sn_unix_listener *socket)
{
	char path[SN_UNIX_ADDRESS_MAX];
	struct stat found;
	if (sn_unix_listener_address(socket, path, sizeof path) < 0 || lstat(path, &found) < 0)
		return std::nullopt;
	return file_id{found.st_dev, found.st_ino};
}

/* Keeps the socket from removing its file, in this process and in others. Returns the file's
 * identity if the socket would have removed it and it is still there. */
std::optional<file_id> give_up_file(sn_unix_listener *socket)
{
	if (sn_unix_listener_set_unlink(socket, 0) <= 0)
		return std::nullopt;
	const auto found = file_at(socket);
	/* Succeeds only if the socket's own file is there now; then that is the file that was
	 * found. */
	if (sn_unix_listener_set_unlink(socket, 1) < 0)
		return std::nullopt;
	sn_unix_listener_set_unlink(socket, 0);
	return found;
}

/* Makes the adopted socket remove its file from now on, if that is still there. */
void own_file(sn_unix_listener *socket, const file_id &file)
{
	/* set_unlink takes whichever socket's file it finds at the path. The identity is
	 * compared after the call, so that no other file can come in between. */
	if (sn_unix_listener_set_unlink(socket, 1) >= 0 && file_at(socket) != file)
		sn_unix_listener_set_unlink(socket, 0);
}

/* With the name, "=" and the zero at its end it is one string of the environment. */
std::size_t variable_size(std::string_view value)
{
	return std::string_view(handover_variable).size() + 1 + value.size() + 1;
}

} // namespace

files_in_transit::files_in_transit(std::vector<handed_listener> &which) : which_(which)
{
	for (auto &each : which_)
		if (each.socket)
			each.file = give_up_file(sn_tcp_listener_unix(each.socket));
}

files_in_transit::~files_in_transit()
{
	for (const auto &each : which_)
		if (each.file && !are_taken_)
			sn_unix_listener_set_unlink(sn_tcp_listener_unix(each.socket), 1);
}

std::string to_handover(int ready_fd, const std::vector<handed_listener> &listeners)
{
	std::string text = std::to_string(ready_fd);
	for (const auto &each : listeners) {
		text += ';' + std::to_string(each.fd()) + ',' + to_hex(each.name) + ',';
		/* A path can contain the separators. */
		text += is_unix(each.address) ? "unix:," + to_hex(each.address) : each.address;
		if (each.file)
			text += ',' + std::to_string(each.file->device) + ',' +
				std::to_string(each.file->inode);
	}
	return text;
}

std::string to_handover_value(std::string text, owned_fd &list)
{
	if (variable_size(text) <= longest_variable)
		return text;
	list = owned_fd(make_unnamed_file(text));
	const std::string number = std::to_string(list.get());
	std::string value = number;
	std::string_view rest = text;
	take_until(rest, ';');
	while (!rest.empty()) {
		auto one = take_until(rest, ';');
		take_until(one, ',');
		if (variable_size(value) + 2 + number.size() + one.size() > longest_decoy)
			break;
		value.append(";").append(number).append(",").append(one);
	}
	return value;
}

void inherited::take_over()
{
	add_from_manager();
	const auto value = take_variable(handover_variable);
	const auto first = to_number(value.substr(0, value.find(';')));
	add_from_former(first && is_regular_file(*first) ? take_unnamed_file(*first) : value);
}

void inherited::add_from_manager()
{
	const auto pid = to_number(take_variable("LISTEN_PID"));
	const auto count = to_number(take_variable("LISTEN_FDS"));
	unsetenv("LISTEN_FDNAMES");
	/* The variables are meant for another process, such as a parent. */
	if (!pid || *pid != getpid() || !count || *count > most_from_manager)
		return;
	for (int fd = first_from_manager; fd < first_from_manager + *count; fd++) {
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		entries_.push_back({.fd = fd,
				    .bound = local_of(fd),
				    .is_udp = is_datagram(fd),
				    .local = unix_address_of(fd)});
	}
}

void inherited::add_from_former(std::string_view text)
{
	if (text.empty())
		return;
	const auto ready = to_number(take_until(text, ';'));
	if (!ready)
		return;
	ready_ = *ready;
	fcntl(ready_, F_SETFD, FD_CLOEXEC);
	while (!text.empty()) {
		auto one = take_until(text, ';');
		const auto fd = to_number(take_until(one, ','));
		std::string name = from_hex(take_until(one, ','));
		if (!fd)
			continue;
		fcntl(*fd, F_SETFD, FD_CLOEXEC);
		entry made{.fd = *fd, .name = std::move(name)};
		made.address = take_until(one, ',');
		if (made.address == "unix:")
			made.address = from_hex(take_until(one, ','));
		const auto device = to_large_number(take_until(one, ','));
		const auto inode = to_large_number(take_until(one, ','));
		if (device && inode)
			made.file = {*device, *inode};
		entries_.push_back(std::move(made));
	}
}

/* Port 0 is a different port each time, so such listeners are matched by name. */
std::optional<inherited::entry> inherited::find(std::string_view name, std::string_view address)
{
	const auto is_it = [&](const entry &each) {
		if (each.bound)
			return each.is_udp == is_udp(address) &&
			       means(without_udp(address), *each.bound);
		if (!each.local.empty())
			return each.local == address;
		return each.address == address && (!is_any(address) || each.name == name);
	};
	const auto found = std::ranges::find_if(entries_, is_it);
	if (found == entries_.end())
		return std::nullopt;
	auto one = std::move(*found);
	entries_.erase(found);
	return one;
}

std::optional<sn::result<sn::tcp_listener>> inherited::take(std::string_view name,
							    std::string_view address, int &fd)
{
	const auto found = find(name, address);
	if (!found)
		return std::nullopt;
	fd = found->fd;
	auto socket = sn::tcp_listener::adopt(fd);
	if (socket && found->file)
		with_file_.emplace_back(socket->get(), *found->file);
	return socket;
}

std::optional<sn::result<sn::udp>> inherited::take_udp(std::string_view name,
						       std::string_view address,
						       const sn::udp_options &options, int &fd)
{
	const auto found = find(name, address);
	if (!found)
		return std::nullopt;
	fd = found->fd;
	return sn::udp::adopt(fd, options);
}

/* Keeps a socket open until its file is removed, because no other file can be mistaken for its
 * own while it is open. */
bool inherited::keep_unused(const entry &which)
{
	auto socket = sn::tcp_listener::adopt(which.fd);
	if (!socket)
		return false;
	with_file_.emplace_back(socket->get(), *which.file);
	unused_.push_back(std::move(*socket));
	return true;
}

void inherited::close_unused()
{
	for (const auto &each : entries_) {
		/* Sockets of the old process are not reported, because it accepts their backlog
		 * itself. */
		if (each.address.empty())
			emit(event_kind::socket_unused,
			     "closing inherited descriptor " + std::to_string(each.fd) +
				     ", which no listener uses; expected a socket that is bound "
				     "to the address of a listener");
		if (!each.file || !keep_unused(each))
			::close(each.fd);
	}
	entries_.clear();
}

/* A pipe reports an error once nobody can read from it. */
bool inherited::has_former() const noexcept
{
	pollfd report{ready_, 0, 0};
	return ready_ >= 0 && poll(&report, 1, 0) <= 0;
}

void inherited::done()
{
	close_unused();
	if (ready_ < 0)
		return;
	static_cast<void>(!write(ready_, "!", 1));
	::close(ready_);
	ready_ = -1;
	for (const auto &[socket, file] : with_file_)
		own_file(sn_tcp_listener_unix(socket), file);
	with_file_.clear();
	unused_.clear();
}

} // namespace relay
