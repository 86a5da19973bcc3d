/* SPDX-License-Identifier: MIT */
/*
 * Listening descriptors that this process was started with: by systemd, which listens before the
 * relay starts (sd_listen_fds(3)'s protocol: LISTEN_PID, LISTEN_FDS), or by an earlier process of
 * the relay that hands over (handover.hpp).
 *
 * A listener takes the descriptor that is bound to its address; one from an earlier process is
 * matched by the address as written. A descriptor that no listener takes is closed, and one from
 * systemd is reported, because clients would wait in its backlog forever.
 *
 * The file of a Unix socket is passed on with the socket, and the last process removes it: when it
 * ends, or immediately if no listener of its configuration takes the socket. Each process also
 * passes on the identity of the file, so that a file of another program that has replaced it stays.
 * The file of a socket from systemd stays too, because it is systemd's.
 */
#ifndef RELAY_INHERITED_HPP
#define RELAY_INHERITED_HPP

#include "base/ip.hpp"
#include "base/owned_fd.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace relay
{

/* The identity of a file, from lstat(2): unique while the file exists or is open. */
struct file_id {
	std::uint64_t device = 0;
	std::uint64_t inode = 0;

	bool operator==(const file_id &) const = default;
};

/* A listener whose descriptor is handed over. */
struct handed_listener {
	sn_tcp_listener *socket = nullptr;
	std::string name;              /* as configured; empty: none */
	std::string address;           /* as configured */
	std::optional<file_id> file{}; /* a Unix socket's file that its process removes */
	sn_udp *datagrams = nullptr;   /* instead of the socket, for a UDP listener */

	int fd() const noexcept
	{
		return socket ? sn_tcp_listener_fd(socket) : sn_udp_fd(datagrams);
	}
};

/*
 * The files of the Unix sockets among the listeners, while the listeners are handed over: during
 * that time neither process removes a file when it ends. The constructor sets `file` of each
 * listener whose file is still in its place, and gives up a file that was replaced. Unless another
 * process has taken the files, the destructor makes them this process's own again. Blocks the
 * thread on the file system.
 */
class files_in_transit
{
public:
	explicit files_in_transit(std::vector<handed_listener> &which);
	files_in_transit(const files_in_transit &) = delete;
	files_in_transit &operator=(const files_in_transit &) = delete;
	~files_in_transit();

	void are_taken() noexcept { are_taken_ = true; }

private:
	std::vector<handed_listener> &which_;
	bool are_taken_ = false;
};

/* The environment variable in which a process lists the sockets that it hands over, and the
 * list. */
inline constexpr const char *handover_variable = "SENNIT_RELAY_HANDOVER";
std::string to_handover(int ready_fd, const std::vector<handed_listener> &listeners);

/*
 * The value of the variable: the list itself if it fits, which every version of the relay takes
 * over. Otherwise `list` gets the descriptor of a file with the list (unnamed_file.hpp), and the
 * value is a short list with that descriptor as the one to report to and as every socket. A version
 * that does not know this finds that the descriptor of a listener is no socket, and ends. If its
 * configuration has none of these listeners it may open others of its own, until the old process
 * kills it, as it cannot report that it serves. Throws if there is no file.
 */
std::string to_handover_value(std::string text, owned_fd &list);

/* The names of the admin and the control server in that list. No listener of the configuration can
 * have such a name. */
inline constexpr std::string_view admin_listener_name{"\0admin", 6};
inline constexpr std::string_view control_listener_name{"\0control", 8};

class inherited
{
public:
	/* Takes the descriptors over, and removes the variables from the environment. Throws if the
	 * list of the old process cannot be read. Call it before there are threads. */
	void take_over();

	/* Adopts the descriptor for a listener, and sets fd to its number. Returns nothing if
	 * there is none. On failure the descriptor stays open. Call it in a task. */
	std::optional<sn::result<sn::tcp_listener>> take(std::string_view name,
							 std::string_view address, int &fd);

	/* The same for a UDP listener. */
	std::optional<sn::result<sn::udp>> take_udp(std::string_view name, std::string_view address,
						    const sn::udp_options &options, int &fd);

	/* To be called when every listener has taken its descriptor and is still open. Closes
	 * the other descriptors. If there is an old process, reports that this one serves, so
	 * that the old one ends, takes over the files of its Unix sockets, and removes the files
	 * that no listener uses. Call it in a task. */
	void done();

	/* Whether there is an old process that serves until done(). False once that has ended. */
	bool has_former() const noexcept;

private:
	struct entry {
		int fd = -1;
		std::string name{};
		std::string address{};         /* as the old process has it; empty: from systemd */
		std::optional<ip_end> bound{}; /* from systemd */
		bool is_udp = false;           /* the same */
		std::string local{};           /* address of a Unix socket from systemd */
		std::optional<file_id> file{}; /* the file that the old process has handed over */
	};

	void add_from_manager();
	void add_from_former(std::string_view text);
	std::optional<entry> find(std::string_view name, std::string_view address);
	bool keep_unused(const entry &which);
	void close_unused();

	std::vector<entry> entries_;
	/* Unix sockets that this process will own the files of, once it serves. */
	std::vector<std::pair<sn_tcp_listener *, file_id>> with_file_;
	std::vector<sn::tcp_listener> unused_; /* sockets of with_file_ that no listener uses */
	int ready_ = -1;
};

} // namespace relay

#endif
