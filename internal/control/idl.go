package control

// interfaceNames lists the interfaces in the order of GetInfo.
func interfaceNames() []string {
	return []string{"org.varlink.service", "io.systemd.Journal", "dev.tidemark.Log"}
}

// describe returns the text of an interface.
func describe(name string) (text string, ok bool) {
	switch name {
	case "org.varlink.service":
		return serviceIDL, true
	case "io.systemd.Journal":
		return journalIDL, true
	case "dev.tidemark.Log":
		return logIDL, true
	default:
		return "", false
	}
}

const serviceIDL = `# What every varlink service answers.
interface org.varlink.service

# Who answers here
method GetInfo() -> (
  vendor: string,
  product: string,
  version: string,
  url: string,
  interfaces: []string
)

# The text of one interface
method GetInterfaceDescription(interface: string) -> (description: string)

error InterfaceNotFound (interface: string)

error MethodNotFound (method: string)

error MethodNotImplemented (method: string)

error InvalidParameter (parameter: string)

error PermissionDenied ()
`

const journalIDL = `# Commands to the log daemon, as systemd-journald understands them.
interface io.systemd.Journal

# Everything received before the call is on stable storage when it answers.
# With offline, which newer clients pass, the files that were rotated before are
# archived by then too. Root and the daemon's own user only, as all methods of
# this interface.
method Synchronize(offline: ?bool) -> ()

# Archives the current files and begins new ones
method Rotate() -> ()

# There is one place for logs: answered with success, nothing moves
method FlushToVar() -> ()

# There is one place for logs: answered with success, nothing moves
method RelinquishVar() -> ()

error NotSupportedByNamespaces ()
`

const logIDL = `# Entries with an acknowledgement, and what tidemark tells about itself.
interface dev.tidemark.Log

# One way in: a protocol (native, syslog, stdout, varlink, http) and the path of
# a socket or a URL
type Endpoint (protocol: string, address: string)

# One file that is being written. Sizes in bytes, times in microseconds since
# 1970.
type File (
  path: string,
  entries: int,
  bytes: int,
  unwritten: int,
  unsynced: int,
  fill: int,
  seqnumID: string,
  tailSeqnum: int,
  headRealtime: int,
  tailRealtime: int,
  error: ?string
)

# How often something happened: name is a path into the daemon (native, syslog,
# stdout, kernel, http, store), reason is what happened
type Count (name: string, reason: string, n: int)

# Space on the file system of the data directory. usage is what the journal
# files take, limit what they may take, available what is free for the daemon,
# archived how many files may be removed, prepared how many wait, empty,
# to become current
type Space (
  usage: int,
  limit: int,
  available: int,
  archived: int,
  prepared: int,
  full: bool
)

# How large things were: counts[i] of them 2^i to 2^(i+1)-1, the first 0 or 1, in
# units of µs or records; sum is that of all. name is an effect of journal files
# (write, index, sync) or of text logs (access_log write, access_log sync, funnel write, funnel sync),
# records, those of one sync, or the turns of a loop that reads a socket (turn
# native and its like)
type Histogram (name: string, unit: string, counts: []int, sum: int)

# One entry. Its fields are NAME=value: those of fields in UTF-8, those of
# binary any bytes in base64. NAME is 1 to 64 of A-Z, 0-9 and _, and begins with a
# letter; the daemon adds who has sent it. A PRIORITY of 0 to 2 has a sync
# begin at once
type Entry (fields: ?[]string, binary: ?[]string)

# Stores entries in their order. It answers when all of them have reached ack:
# appended (they survive the end of the daemon) or synced (a power cut); without
# ack, and at least, what the sync policy gives. ack in the answer is the level
# reached. dropped are those of accepted that the configuration does not store.
# While the buffer is full it waits. Nothing is stored of a call with an invalid
# parameter, or with more than 4096 entries
method Append(entries: []Entry, ack: ?string) -> (accepted: int, dropped: int, ack: string)

# The first accepted entries or lines were taken, and all of them have reached ack;
# the others have not been taken. errno and message say why. Lines that were taken
# and have not reached appended are tried again: a call without lines waits for them
error NotReached (accepted: int, dropped: int, ack: string, errno: int, message: string)

# Appends whole lines to a file of the client, which opens it with its own rights
# and passes two descriptors with a call (SCM_RIGHTS): the first O_WRONLY or O_RDWR
# with O_APPEND, the second O_RDWR without, for repair; both of the same regular
# file. The first alone will do while the daemon has the file open; else it is Refused,
# and the next call may bring both. A message with descriptors begins with a sendmsg of its own. The calls that
# follow on the connection are for that file, until another one brings descriptors.
# lines are in UTF-8 and without newlines; data are whole lines of any bytes, in
# base64, and come behind them. It answers when all lines that the connection has
# sent to its file have reached ack: appended (they are in the file, whole, and
# survive the end of the daemon) or synced (a power cut); without ack appended. ack
# in the answer is the level reached. A oneway call waits for neither; if it fails,
# the calls behind it are refused with NotReached. A call takes all of its lines, or
# none; one without lines waits for those before
method AppendLines(lines: ?[]string, data: ?string, ack: ?string) -> (accepted: int, ack: string)

# No call of this connection has brought descriptors
error NoFile ()

# The descriptors are not what AppendLines wants, and none of the call's lines was
# taken
error Refused (reason: string)

# The state of the daemon. sync is the sync policy, notify the window of change
# notifications in microseconds, nice the scheduling priority; buffer is the bound of entries accepted and not
# yet written, buffered what is in it, both in bytes; syncs are those of all files
# since the start; unsynced are the entries that are not synced, unsyncedBytes how
# much they are at most, unsyncedSince when the oldest came, 0 for none
method Status() -> (
  version: string,
  pid: int,
  started: int,
  machineID: string,
  bootID: string,
  data: string,
  run: string,
  endpoints: []Endpoint,
  sync: string,
  notify: int,
  nice: int,
  buffer: int,
  buffered: int,
  clockSteps: int,
  syncs: int,
  syncErrors: int,
  unsynced: int,
  unsyncedBytes: int,
  unsyncedSince: int,
  files: []File,
  space: Space,
  counts: []Count,
  histograms: []Histogram
)
`
