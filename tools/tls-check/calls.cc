/* SPDX-License-Identifier: MIT */
#include "calls.hpp"

#include <algorithm>
#include <unordered_set>

namespace checking
{
namespace
{

using names = std::unordered_set<std::string_view>;

/* The words of a text, separated by spaces. */
names words(std::string_view text)
{
	names all;

	while (!text.empty()) {
		const auto end = std::min(text.find(' '), text.size());
		if (end > 0)
			all.insert(text.substr(0, end));
		text.remove_prefix(std::min(end + 1, text.size()));
	}
	return all;
}

/* The C library's calls that wait, as libsennit-hooks replaces them (src/hooks/exports.map, which
 * tests/tls-check compares with this list and the next one). */
const names hooked =
	words("connect accept accept4 read readv write writev send sendto sendmsg sendmmsg "
	      "sendfile sendfile64 recv recvfrom recvmsg recvmmsg poll ppoll select pselect "
	      "epoll_wait sleep usleep nanosleep clock_nanosleep thrd_sleep getaddrinfo "
	      "__read_chk __recv_chk __recvfrom_chk __poll_chk __ppoll_chk __sendmsg64 "
	      "__recvmsg64 __sendmmsg64 __recvmmsg64 __ppoll64 __select64 __pselect64 "
	      "__nanosleep64 __clock_nanosleep_time64 __thrd_sleep64 ");

/* Other calls that libsennit-hooks replaces. They do not wait, or they block the thread, so no
 * task parks in them. */
const names hooked_without_parking =
	words("socket setsockopt close close_range closefrom fclose pclose freopen freopen64 "
	      "dup dup2 dup3 fcntl fcntl64 gethostbyname gethostbyname_r gethostbyname2 "
	      "gethostbyname2_r gethostbyaddr gethostbyaddr_r getnameinfo gethostent "
	      "gethostent_r sethostent endhostent getservbyname getservbyname_r "
	      "getservbyport getservbyport_r getservent getservent_r setservent "
	      "endservent getpwnam getpwnam_r getpwuid getpwuid_r getpwent getpwent_r "
	      "setpwent endpwent getgrnam getgrnam_r getgrgid getgrgid_r getgrent "
	      "getgrent_r setgrent endgrent getgrouplist initgroups getspnam getspnam_r "
	      "getspent getspent_r setspent endspent getsgnam getsgnam_r getsgent "
	      "getsgent_r setsgent endsgent getnetbyname getnetbyname_r getnetbyaddr "
	      "getnetbyaddr_r getnetent getnetent_r setnetent endnetent getprotobyname "
	      "getprotobyname_r getprotobynumber getprotobynumber_r getprotoent "
	      "getprotoent_r setprotoent endprotoent getrpcbyname getrpcbyname_r "
	      "getrpcbynumber getrpcbynumber_r getrpcent getrpcent_r setrpcent endrpcent "
	      "getaliasbyname getaliasbyname_r getaliasent getaliasent_r setaliasent "
	      "endaliasent getnetgrent getnetgrent_r setnetgrent endnetgrent innetgr "
	      "ether_hostton ether_ntohost getlogin getlogin_r __getlogin_r_chk cuserid "
	      "getpw gethostid wordexp rcmd rcmd_af rexec rexec_af ruserok ruserok_af "
	      "iruserok iruserok_af __ivaliduser "
	      "__setsockopt64 __fcntl_time64 pthread_mutex_lock pthread_mutex_trylock "
	      "pthread_mutex_timedlock pthread_mutex_clocklock pthread_mutex_unlock "
	      "__pthread_mutex_timedlock64 __pthread_mutex_clocklock64 pthread_rwlock_rdlock "
	      "pthread_rwlock_tryrdlock pthread_rwlock_timedrdlock pthread_rwlock_wrlock "
	      "pthread_rwlock_trywrlock pthread_rwlock_timedwrlock pthread_rwlock_clockrdlock "
	      "pthread_rwlock_clockwrlock __pthread_rwlock_timedrdlock64 "
	      "__pthread_rwlock_timedwrlock64 __pthread_rwlock_clockrdlock64 "
	      "__pthread_rwlock_clockwrlock64 pthread_rwlock_unlock pthread_spin_lock "
	      "pthread_spin_trylock pthread_spin_unlock mtx_lock mtx_trylock mtx_timedlock "
	      "mtx_unlock __mtx_timedlock64 flockfile ftrylockfile funlockfile _IO_flockfile "
	      "_IO_ftrylockfile _IO_funlockfile "
	      /* The functions that these call run with the hooks off. */
	      "pthread_once call_once ");

/* The functions of sennit that may park. Its other functions do not: tests/tls-check compares
 * the list with the headers. */
const names of_sennit =
	words("sn_barrier_wait sn_barrier_wait_until sn_writer_write sn_writer_print "
	      "sn_writer_vprint sn_writer_flush sn_reader_line sn_reader_through sn_reader_peek "
	      "sn_reader_take sn_reader_read sn_reader_read_full sn_reader_skip "
	      "sn_reader_skip_through sn_chan_send sn_chan_send_until sn_chan_recv "
	      "sn_chan_recv_until sn_cond_wait sn_cond_wait_until sn_copy sn_layer_run "
	      "sn_mutex_lock sn_mutex_lock_until sn_mutex_lock_uncancelled sn_once "
	      "sn_once_until sn_fd_wait sn_fd_wait_any sn_process_start sn_process_wait "
	      "sn_process_output sn_profile_cpu sn_profile_waits sn_relay sn_resolve "
	      "sn_resolve_name sn_resolve_srv sn_rwlock_read sn_rwlock_read_until "
	      "sn_rwlock_write sn_rwlock_write_until sn_rwlock_read_uncancelled "
	      "sn_rwlock_write_uncancelled sn_task_scan sn_scope_open sn_scope_close "
	      "sn_scope_close_until sn_select sn_semaphore_acquire sn_semaphore_acquire_until "
	      "sn_signal_wait sn_signal_wait_for sn_stream_read sn_stream_write "
	      "sn_stream_write_all sn_stream_read_full sn_stream_readv sn_stream_writev "
	      "sn_stream_writev_all sn_stream_shutdown sn_stream_close sn_stream_abort sn_join "
	      "sn_join_until sn_yield sn_sleep sn_sleep_until sn_tcp_accept sn_tcp_connect "
	      "sn_tcp_connect_to_write sn_tcp_listen sn_tcp_wait_closed sn_ticker_wait "
	      "sn_ticker_wait_until sn_tls_connect sn_tls_handshake sn_tls_update_keys "
	      "sn_tls_info sn_tls_peer_certificate sn_udp_open sn_udp_connect sn_udp_recv "
	      "sn_udp_send sn_udp_recv_messages sn_udp_send_messages sn_unix_listen "
	      "sn_unix_accept sn_unix_connect sn_unix_bind sn_unix_recv sn_unix_send "
	      "sn_waitgroup_wait sn_waitgroup_wait_until sn_go_when_readable "
	      "sn_spawn_when_readable "
	      /* Inside the library, this switches from one task to another. */
	      "sn_arch_switch ");

/* Functions of the C library and the compiler that neither wait in a hooked call nor call back.
 * Calls inside the C library are not hooked. */
const names harmless =
	words("memcpy memmove memset memcmp memchr memrchr rawmemchr mempcpy memmem bcmp bcopy "
	      "bzero explicit_bzero strlen strnlen strcpy strncpy stpcpy stpncpy strcat strncat "
	      "strcmp strncmp strcasecmp strncasecmp strcoll strxfrm strchr strrchr strchrnul "
	      "strstr strcasestr strspn strcspn strpbrk strtok strtok_r strsep strdup strndup "
	      "strerror strerror_r __xpg_strerror_r strsignal strlcpy strlcat wcslen wmemcpy "
	      "wmemset __memcpy_chk __memmove_chk __memset_chk __mempcpy_chk __strcpy_chk "
	      "__strncpy_chk __stpcpy_chk __strcat_chk __strncat_chk __sprintf_chk "
	      "__snprintf_chk __vsprintf_chk __vsnprintf_chk __fdelt_chk __isoc99_sscanf "
	      "__isoc99_vsscanf __isoc23_sscanf sscanf vsscanf sprintf snprintf vsprintf "
	      "vsnprintf asprintf vasprintf __asprintf_chk __vasprintf_chk atoi atol atoll atof "
	      "strtol strtoul strtoll strtoull strtod strtof strtold strtoimax strtoumax "
	      "__isoc23_strtol __isoc23_strtoul __isoc23_strtoll __isoc23_strtoull "
	      "__strtol_internal malloc calloc realloc reallocarray free cfree memalign "
	      "aligned_alloc posix_memalign valloc malloc_usable_size isalnum isalpha isdigit "
	      "islower isprint isspace isupper isxdigit tolower toupper abs labs div ldiv rand "
	      "srand random srandom rand_r getenv secure_getenv setenv unsetenv time "
	      "gettimeofday clock_gettime clock_getres clock times gmtime gmtime_r localtime "
	      "localtime_r mktime timegm strftime difftime getpid getppid gettid getuid geteuid "
	      "getgid getegid getpagesize sysconf getrlimit getrlimit64 setrlimit getrusage "
	      "uname gethostname open open64 openat openat64 __open_2 __open64_2 creat stat "
	      "stat64 fstat fstat64 lstat lstat64 fstatat __xstat __fxstat __lxstat access "
	      "faccessat lseek lseek64 pread pread64 pwrite pwrite64 ftruncate ftruncate64 "
	      "fsync fdatasync unlink unlinkat rename renameat link symlink readlink mkdir "
	      "mkdirat rmdir chdir getcwd chmod fchmod chown fchown utimes futimens utimensat "
	      "opendir readdir readdir64 closedir realpath mkstemp mkstemp64 mkostemp mmap "
	      "mmap64 munmap mprotect madvise mremap ioctl pipe pipe2 eventfd epoll_create "
	      "epoll_create1 epoll_ctl timerfd_create timerfd_settime inotify_init1 "
	      "inotify_add_watch socketpair bind listen getsockname getpeername getsockopt "
	      "shutdown inet_addr inet_aton inet_ntoa inet_ntop inet_pton htons htonl ntohs "
	      "ntohl freeaddrinfo gai_strerror if_nametoindex if_indextoname getifaddrs "
	      "freeifaddrs signal sigaction sigemptyset sigfillset sigaddset sigdelset "
	      "sigismember sigprocmask pthread_sigmask kill raise alarm fork waitpid wait "
	      "pthread_equal pthread_mutex_init pthread_mutex_destroy pthread_mutexattr_init "
	      "pthread_mutexattr_settype pthread_mutexattr_destroy pthread_cond_init "
	      "pthread_cond_destroy pthread_cond_signal pthread_cond_broadcast "
	      "pthread_cond_wait pthread_cond_timedwait pthread_rwlock_init "
	      "pthread_rwlock_destroy pthread_key_create pthread_key_delete pthread_getspecific "
	      "pthread_setspecific pthread_create pthread_detach pthread_join pthread_attr_init "
	      "pthread_attr_destroy pthread_attr_setstacksize pthread_setname_np sched_yield "
	      "sem_init sem_post sem_wait sem_destroy fopen fopen64 fdopen fflush fputs fputc "
	      "putc putchar puts fwrite fread fgets fgetc getc ungetc fseek fseeko fseeko64 "
	      "ftell ftello rewind feof ferror clearerr fileno getline printf fprintf vfprintf "
	      "vprintf __printf_chk __fprintf_chk __vfprintf_chk __vprintf_chk perror setvbuf "
	      "setlocale nl_langinfo newlocale uselocale freelocale openlog syslog closelog "
	      "dlsym dlerror floor ceil sqrt pow log exp fmod getauxval getrandom getentropy "
	      "arc4random __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort "
	      "__cxa_allocate_exception __cxa_free_exception __cxa_begin_catch __cxa_end_catch "
	      "__cxa_get_exception_ptr __dynamic_cast __cxa_thread_atexit __cxa_atexit _setjmp "
	      "setjmp __sigsetjmp _Znwm _Znam _ZdlPv _ZdlPvm _ZdaPv _ZdaPvm _ZnwmRKSt9nothrow_t "
	      "_ZnwmSt11align_val_t _ZdlPvmSt11align_val_t __udivti3 __umodti3 __divti3 "
	      "__modti3 __popcountdi2 _mcount mcount __fentry__ sn_private_errno ");

const names endless =
	words("abort exit _exit _Exit quick_exit __assert_fail __assert __assert_perror_fail "
	      "__stack_chk_fail __stack_chk_fail_local __chk_fail __fortify_fail __libc_fatal "
	      "__longjmp_chk longjmp _longjmp siglongjmp pthread_exit thrd_exit err errx verr "
	      "verrx __cxa_throw __cxa_rethrow __cxa_bad_cast __cxa_bad_typeid "
	      "__cxa_pure_virtual __cxa_throw_bad_array_new_length __cxa_call_unexpected "
	      "__cxa_call_terminate _Unwind_Resume _ZSt9terminatev __libc_start_main "
	      "__clang_call_terminate ");

bool begins_with(std::string_view text, std::string_view with)
{
	return text.substr(0, with.size()) == with;
}

} // namespace

std::string text_of(kind what)
{
	switch (what) {
	case kind::error:
		return "the address of errno";
	case kind::host_error:
		return "the address of h_errno";
	case kind::variable:
		return "the address of a thread-local variable";
	case kind::thread:
		return "the thread pointer";
	case kind::self:
		return "the thread's identity";
	case kind::characters:
		return "the address of a thread's character tables";
	case kind::none:
		break;
	}
	return "nothing";
}

std::string word_of(kind what)
{
	switch (what) {
	case kind::error:
		return "errno";
	case kind::host_error:
		return "h_errno";
	case kind::variable:
		return "thread-local";
	case kind::thread:
		return "thread-pointer";
	case kind::self:
		return "pthread_self";
	case kind::characters:
		return "ctype";
	case kind::none:
		break;
	}
	return "none";
}

kind found_by(std::string_view name)
{
	if (name == "__errno_location" || name == "___errno_location" || name == "sn_private_errno")
		return kind::error;
	if (name == "__h_errno_location")
		return kind::host_error;
	if (name == "__tls_get_addr" || name == "__res_state" || name == "__emutls_get_address")
		return kind::variable;
	if (name == "pthread_self" || name == "thrd_current")
		return kind::self;
	if (name == "__ctype_b_loc" || name == "__ctype_tolower_loc" ||
	    name == "__ctype_toupper_loc")
		return kind::characters;
	/* C++ calls such a function to find a thread-local variable that has a constructor. */
	if (begins_with(name, "_ZTW"))
		return kind::variable;
	return kind::none;
}

parking known_parking(std::string_view name, bool imported)
{
	if (imported && hooked.count(name) != 0)
		return parking::yes;
	if (begins_with(name, "sn_") && (imported || of_sennit.count(name) != 0))
		return of_sennit.count(name) != 0 ? parking::yes : parking::no;
	if (found_by(name) != kind::none)
		return parking::no;
	if (!imported)
		return parking::unknown;
	if (harmless.count(name) != 0 || hooked_without_parking.count(name) != 0)
		return parking::no;
	/* std::string, which allocates and copies. */
	if (begins_with(name, "_ZNSt7__cxx1112basic_string") ||
	    begins_with(name, "_ZNKSt7__cxx1112basic_string"))
		return parking::no;
	return parking::unknown;
}

bool never_returns(std::string_view name)
{
	return endless.count(name) != 0 ||
	       (begins_with(name, "_ZSt") && name.find("__throw_") != std::string_view::npos);
}

} // namespace checking
