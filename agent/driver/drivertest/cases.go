package drivertest

import (
	"testing"

	"github.com/ohmcell/ohm/agent/driver"
)

// and joins what a case needs.
const and = " and "

var cases = []struct {
	name  string
	needs Ability
	run   func(t *testing.T, b *bench)
}{
	{"ExitCodes", Always, exitCodes},
	{"ExitWhileNobodyLooks", Always, exitWhileNobodyLooks},
	{"UnknownTask", Always, unknownTask},
	{"BadTask", Always, badTask},
	{"StartTwice", Always, startTwice},
	{"StartTenAtOnce", Always, startTenAtOnce},
	{"StartAfterRemove", Always, startAfterRemove},
	{"List", Always, list},
	{"Watch", Always, watch},
	{"SignalEnds", Always, signalEnds},
	{"KillEnds", Always, killEnds},
	{"SignalToTheEnded", Always, signalToTheEnded},
	{"RemoveRefusesTheRunning", Always, removeRefusesTheRunning},
	{"RemoveLeavesOnlyLogs", Always, removeLeavesOnlyLogs},
	{"ListLogs", Always, listLogs},
	{"AdoptAndEnd", Always, adoptAndEnd},
	{"AdoptAndLearnExit", Always, adoptAndLearnExit},

	{"CommandNotFound", Processes, commandNotFound},
	{"RelativeCommand", Processes, relativeCommand},
	{"KilledByItself", Processes, killedByItself},
	{"EnvironmentExact", Processes, environmentExact},
	{"NoFilesInherited", Processes, noFilesInherited},
	{"SignalsNotIgnored", Processes, signalsNotIgnored},
	{"PidIsTheCommand", Processes, pidIsTheCommand},
	{"LogStreams", Processes, logStreams},
	{"LogBounded", Processes, logBounded},
	{"Case69FollowAcrossRotations", Processes, case69},
	{"SignalIsHandled", Processes, signalIsHandled},
	{"GraceThenKill", Processes, graceThenKill},
	{"Case114SignalReachesTheTree", Processes, signalReachesTheTree},
	{"Case114KillReachesTheTree", Processes, killReachesTheTree},
	{"EndTakesTheTreeAlong", Processes, endTakesTheTreeAlong},

	{"Case60And61StarterKilled", Outlives, starterKilled},
	{"Case61TenLeftByKilledAgent", Outlives, tenLeftByKilledAgent},

	{"Case67aMainOutOfMemory", driver.CanMemory, mainOutOfMemory},
	{"Case67bChildOutOfMemory", driver.CanMemory, childOutOfMemory},
	{"Case67cUserKill", driver.CanMemory, userKill},
	{"Case67cUserKillAfterChildOutOfMemory", driver.CanMemory, userKillAfterChildOutOfMemory},
	{"RefusesWhatItCannot", Always, refusesWhatItCannot},
	{"User", driver.CanUser, user},
	{"UserUnknown", driver.CanUser, userUnknown},
	{"WorkingFolder", Processes, workingFolder},
	{"MountOfTheNode", driver.CanMount, mountOfTheNode},
	{"MountMissing", driver.CanMount, mountMissing},
	{"Tmpfs", driver.CanMount, tmpfs},
	{"ReadOnlyRoot", driver.CanReadOnly, readOnlyRoot},
	{"CapabilitiesDropped", driver.CanCaps, capabilitiesDropped},
	{"CapabilitiesAdded", driver.CanCaps, capabilitiesAdded},
	{"Confined", driver.CanConfine, confined},
	{"PidsLimit", driver.CanPids, pidsLimit},
	{"CPUMax", driver.CanCPUMax, cpuMax},
	{"Stats", driver.CanStats, stats},
	{"DiskBytes", Processes, diskBytes},
	{"Devices", driver.CanDevices, devices},
	{"DeviceHooks", driver.CanDevices, hooks},

	{"OwnNetwork", driver.CanOwnNetwork, ownNetwork},
	{"OwnNetworkPortBusy", driver.CanOwnNetwork, ownNetworkPortBusy},

	{"ContainersInOrder", driver.CanContainers, containersInOrder},
	{"InitFails", driver.CanContainers, initFails},
	{"SidecarGoesWithMain", driver.CanContainers, sidecarGoesWithMain},
	{"ContainersShareNetwork", driver.CanContainers, containersShareNetwork},
	{"ExecInContainers", driver.CanContainers, execInContainers},
	{"KilledInInit", driver.CanContainers, killedInInit},
	{"MainNotFound", driver.CanContainers, mainNotFound},
	{"InitOutlivesStarter", driver.CanContainers, initOutlivesStarter},
	{"ContainersApart", driver.CanContainers + and + driver.CanImage, containersApart},
	{"ImageOfOneMissing", driver.CanContainers + and + driver.CanImage, imageOfOneMissing},
	{"InitOutOfMemory", driver.CanContainers + and + driver.CanMemory, initOutOfMemory},

	{"ExecCode", driver.CanExec, execCode},
	{"ExecStreams", driver.CanExec, execStreams},
	{"ExecInside", driver.CanExec, execInside},
	{"ExecTerminal", driver.CanTerminal, execTerminal},
	{"ExecGivenUp", driver.CanExec, execGivenUp},
	{"ExecNotRunning", driver.CanExec, execNotRunning},

	{"ImageOfTwoKinds", driver.CanImage, imageOfTwoKinds},
	{"ImageSettings", driver.CanImage, imageSettings},
	{"ImageRootIsOwn", driver.CanImage, imageRootIsOwn},
	{"ImageMissing", driver.CanImage, imageMissing},
	{"ImageBroken", driver.CanImage, imageBroken},
	{"ImageFromRegistry", driver.CanRegistry, imageFromRegistry},
	{"Case113ImageNotFound", driver.CanRegistry, imageNotFound},
	{"Case113ImageDenied", driver.CanRegistry, imageDenied},
	{"Case113PrivateRegistry", driver.CanRegistry, privateRegistry},
	{"Case113RegistryComesBack", driver.CanRegistry, registryComesBack},
	{"Case113RegistryStaysAway", driver.CanRegistry, registryStaysAway},
	{"KillEndsAWaitingStart", driver.CanRegistry, killEndsAWaitingStart},

	{"KillAfterChildOutOfMemory", driver.CanMemory, killAfterChildOutOfMemory},
}
