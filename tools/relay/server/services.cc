/* SPDX-License-Identifier: MIT */
#include "server/services.hpp"

#include "base/host_names.hpp"
#include "base/in_time.hpp"
#include "base/report.hpp"
#include "base/token.hpp"
#include "handover/inherited.hpp"
#include "server/keyed_problem.hpp"
#include "sessions/listener.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <utility>

namespace relay
{
namespace
{

/* Sets the mode of a socket's file that exists already, made here or by the process that has handed
 * the socket over. */
void set_mode(const admin_server &server, int mode) noexcept
try {
	sn_unix_listener *const socket = sn_tcp_listener_unix(server.socket());
	char path[SN_UNIX_ADDRESS_MAX];
	struct stat found;
	/* A file that the listener does not own, such as systemd's or one that has replaced its
	 * file, is left alone. */
	if (mode == 0 || !socket || sn_unix_listener_set_unlink(socket, 0) <= 0 ||
	    sn_unix_listener_set_unlink(socket, 1) < 0 ||
	    sn_unix_listener_address(socket, path, sizeof path) < 0 || lstat(path, &found) < 0 ||
	    static_cast<int>(found.st_mode & 0777) == mode)
		return;
	if (fchmodat(AT_FDCWD, path, static_cast<mode_t>(mode), AT_SYMLINK_NOFOLLOW) < 0) {
		const auto why = std::generic_category().message(errno);
		emit(event_kind::admin_failed,
		     "cannot change the mode of " + std::string(path) + ": " + why,
		     {{"address", server.address()}, {"error", why}});
	}
} catch (const std::exception &) {
	/* There is no memory for the report. */
}

} // namespace

process_services::process_services(shared &all, serving &now, const config *before,
				   const config &next)
    : all_(all), serving_(now), next_(next), fault_(fault_of(all)),
      servers_{{{.name = "admin",
		 .handed_name = admin_listener_name,
		 .address = next.admin,
		 .mode = 0,
		 .in_use = now.admin,
		 .is_other = before ? before->admin != next.admin : !next.admin.empty()},
		{.name = "control",
		 .handed_name = control_listener_name,
		 .address = next.control,
		 .mode = next.control_mode,
		 .in_use = now.control,
		 .is_other = before ? before->control != next.control : !next.control.empty()}}},
      other_log_(before ? before->access_log != next.access_log ||
				  before->access_log_format != next.access_log_format
			: !next.access_log.empty())
{
}

process_services::~process_services()
{
	/* The new log has no lines yet, so its task has not touched the file. */
	if (is_log_started_)
		log_->close();
	/* A client of a new server may already wait for the turn, which is held here, so nobody
	 * waits for the clients. There is room in the list. */
	for (auto &each : servers_)
		if (each.is_started) {
			/* The process that has the socket, too, answers the clients in the
			 * backlog. */
			if (each.is_inherited && all_.inherited.has_former())
				each.next->hand_over();
			else
				each.next->retire();
			serving_.retired_admins.push_back(std::move(each.next));
		}
}

bool process_services::prepare()
{
	std::string why;
	bool opened = true;
	if (!next_.control_token_file.empty())
		opened = read_control_token(why);
	for (auto &each : servers_)
		opened = opened && open_server(each, why);
	opened = opened && open_log(why);
	if (!opened)
		emit(fault_, why);
	for (auto &each : servers_)
		each.names = {next_.admin_hosts, each.address};
	return opened;
}

void process_services::announce() const
{
	for (const auto &each : servers_)
		if (each.next)
			print(std::string(each.name) + " on " + each.next->address());
	if (servers_[0].next && is_everywhere(next_.admin))
		emit(event_kind::admin_exposed,
		     "the admin server listens at every address of this machine, and "
		     "everybody who can connect to it sees everything",
		     {{"address", servers_[0].next->address()}});
}

void process_services::start_log()
{
	if (log_)
		log_->start();
	is_log_started_ = log_ != nullptr;
}

/* Sets the names and the token, once for each server. They take effect also for one that stays. */
void process_services::configure(slot &which, admin_server &server) noexcept
{
	server.answer_as(std::move(which.names));
	if (which.handed_name == control_listener_name)
		server.let_control(serving_.control_by, std::move(token_));
}

void process_services::start_servers()
{
	serving_.retired_admins.reserve(serving_.retired_admins.size() + servers_.size());
	for (auto &each : servers_) {
		if (!each.next)
			continue;
		configure(each, *each.next);
		each.next->start();
		each.is_started = true;
	}
}

void process_services::use_log() noexcept
{
	is_log_started_ = false;
	if (other_log_)
		all_.access_log.exchange(std::move(log_));
}

void process_services::use_servers() noexcept
{
	for (auto &each : servers_) {
		each.is_started = false;
		if (!each.is_other) {
			if (each.in_use) {
				configure(each, *each.in_use);
				set_mode(*each.in_use, each.mode);
			}
			continue;
		}
		each.in_use.swap(each.next);
		if (each.in_use)
			set_mode(*each.in_use, each.mode);
		if (each.next) {
			each.next->retire();
			serving_.retired_admins.push_back(std::move(each.next));
		}
	}
}

bool process_services::open_server(slot &which, std::string &why)
{
	if (!which.is_other || which.address.empty())
		return true;
	int handed = -1;
	auto taken = all_.inherited.take(which.handed_name, which.address, handed);
	if (!taken)
		which.next = admin_server::open(all_.registry, which.address, which.mode, why);
	else if (*taken)
		which.next = std::make_unique<admin_server>(all_.registry, **std::move(taken));
	else
		why = explain_adopting(which.address + " for administration", handed,
				       taken->error());
	which.is_inherited = taken.has_value();
	if (!which.next)
		why = with_key(all_.config_file, next_, which.name, std::move(why));
	return which.next != nullptr;
}

bool process_services::read_control_token(std::string &why)
{
	struct result {
		bool is_read = false;
		std::string token{};
		std::string why{};
	};
	auto read = call_in_time([file = next_.control_token_file] {
		result found;
		found.is_read = read_token(file, found.token, found.why);
		return found;
	});
	if (!read || !read->is_read) {
		why = with_key(all_.config_file, next_, "control_token_file",
			       read ? std::move(read->why)
				    : next_.control_token_file + ": " + no_answer);
		return false;
	}
	token_ = std::move(read->token);
	return true;
}

bool process_services::open_log(std::string &why)
{
	if (!other_log_ || next_.access_log.empty())
		return true;
	struct result {
		std::unique_ptr<access_log> log{};
		std::string why{};
	};
	auto opened = call_in_time([target = next_.access_log, format = next_.access_log_format] {
		result made;
		made.log = access_log::open(target, format, made.why);
		return made;
	});
	if (!opened || !opened->log) {
		why = with_key(all_.config_file, next_, "access_log",
			       opened ? std::move(opened->why)
				      : "cannot open the access log " + next_.access_log + ": " +
						no_answer);
		return false;
	}
	log_ = std::move(opened->log);
	return true;
}

} // namespace relay
