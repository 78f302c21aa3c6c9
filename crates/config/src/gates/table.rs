//! Every feature gate Kubernetes 1.36 or 1.37 knows, in groups that share stage, default and lock.
//!
//! Data only. The names come with the release: a new baseline means new groups here and nowhere else.

use super::Stage;

/// Gates that are alike in everything but the name.
#[derive(Debug)]
pub struct Group {
    /// How mature they are.
    pub stage: Stage,
    /// Their value unless set.
    pub default: bool,
    /// Whether they may only be set to that value.
    pub locked: bool,
    /// Whether 1.37 still knows them; the others are those of older releases.
    pub known_to_1_37: bool,
    /// The names, separated by white space.
    pub names: &'static str,
}

/// All groups.
pub const GROUPS: &[Group] = &[
    Group {
        stage: Stage::Alpha,
        default: false,
        locked: false,
        known_to_1_37: true,
        names: "APIServerWebhookAuthenticationToken APIServingWithRoutine AllAlpha \
             AtomicWriteVolumeUserFields CBORServingAndStorage CPUManagerPolicyAlphaOptions \
             CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR \
             CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook \
             CompositePodGroup ConsistentListFromCacheSkipTimeoutFallback ContainerStopSignals \
             ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource \
             DRADerivedAttributes DRADeviceCompatibilityGroups DRAListTypeAttributes \
             DRANodeAllocatableResources DRAOptionalNodeOperations DRAPartitionableDevicesType \
             DRAResourcePoolStatus DefaultPodSysctls EmptyDirVolumeMode EventedPLEG EvictionRequestAPI \
             GRPCContainerProbeTLS H2CContainerProbe ImageVolumeWithDigest \
             InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory \
             InPlacePodVerticalScalingMemoryBackedVolumes InPlacePodVerticalScalingSchedulerPreemption \
             InterPodAffinityHostnameFastPath KubeProxyNFTablesLocalhostNodePorts \
             KubeletAllocatedPodsEndpoint LoggingAlphaOptions MutablePVNodeAffinity \
             NodeLifecycleConditions PodGroupPreemptionPolicy PodLogsQuerySplitStreams QOSReserved \
             ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi SchedulerPreQueueingHints \
             ShardedListAndWatch StatefulSetRecreateStrategy StorageVersionAPI \
             TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling \
             TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport VolumeBindMountOptions \
             WindowsCPUAndMemoryAffinity WorkloadWithJob",
    },
    Group {
        stage: Stage::Beta,
        default: false,
        locked: false,
        known_to_1_37: true,
        names: "AllBeta CoordinatedLeaderElection DRAFractionalCapacityRange DRAWorkloadResourceClaims \
             GenericWorkload LocalStorageCapacityIsolationFSQuotaMonitoring PodAndContainerStatsFromCRI \
             PodLevelResourceManagers SchedulerAsyncAPICalls",
    },
    Group {
        stage: Stage::Beta,
        default: true,
        locked: false,
        known_to_1_37: true,
        names: "APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth \
             AllowUnsafeMalformedObjectDeletion AtomicFIFO AuthorizePodWebsocketUpgradeCreatePermission \
             CPUManagerPolicyBetaOptions CRDObservedGenerationTracking \
             ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC \
             ComponentFlagz ComponentStatusz ConcurrentWatchObjectDecode ConstrainedImpersonation \
             ContainerCheckpoint ContainerRestartRules ContextualLogging DRAConsumableCapacity \
             DRADeviceBindingConditions DRAPartitionableDevices \
             DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout \
             DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency \
             EnvFiles EtcdRangeStream ExcludeAdmissionWebhookVirtualResources ExtendWebSocketsToKubelet \
             GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAGeneration \
             HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction InOrderInformersBatchProcess \
             InPlacePodLevelResourcesVerticalScaling KubeletCrashLoopBackOffMax \
             KubeletEnsureSecretPulledImages KubeletInUserNamespace KubeletSeparateDiskGC \
             KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions \
             ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpread \
             MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS \
             MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs \
             NFTablesNetlink NativeHistograms NodeControllerLeaseCircuitBreaker \
             NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching \
             PersistentVolumeClaimUnusedSinceTime PodDeletionCost PodLevelResources \
             PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass \
             PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets ReloadKubeletClientCAFile \
             ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus \
             ResourceHealthStatusMessage RestartAllContainersOnContainerExits \
             RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ \
             ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate \
             StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA \
             StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet \
             StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison \
             StorageCapacityScoring StorageVersionHash StrictIPCIDRValidation \
             StructuredAuthenticationConfigurationEgressSelector \
             StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation \
             TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests \
             UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy \
             UnlockWhileProcessingFIFO VolumeLimitScaling WatchList WatchListClient WatchListCompression \
             WebhookRoundTripLoadBalancing WindowsGracefulNodeShutdown",
    },
    Group {
        stage: Stage::Stable,
        default: true,
        locked: true,
        known_to_1_37: true,
        names: "CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets \
             CustomResourceFieldSelectors DRAAdminAccess DRAExtendedResource DRAPrioritizedList \
             DRAResourceClaimDeviceStatus DeclarativeValidation DisableAllocatorDualWrite \
             DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner \
             HPAConfigurableTolerance HostnameOverride ImageMaximumGCAge ImageVolume InOrderInformers \
             InPlacePodVerticalScaling InPlacePodVerticalScalingInitContainers JobManagedBy \
             KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI \
             KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing \
             MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount \
             NFTablesProxyMode NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NodeLogQuery \
             NodeSwap PLEGOnDemandRelist PodObservedGenerationTracking PodReadyToStartContainersCondition \
             PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType \
             RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedEnvironmentVariableValidation \
             RelaxedServiceNameValidation SELinuxChangePolicy SELinuxMountReadWriteOncePod \
             SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding \
             ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo \
             SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport \
             VolumeAttributesClass WatchCacheInitializationPostStartHook WinDSR WinOverlay",
    },
    Group {
        stage: Stage::Stable,
        default: true,
        locked: false,
        known_to_1_37: true,
        names: "AllowServiceExternalIPs ClusterTrustBundle ClusterTrustBundleProjection \
             CustomCPUCFSQuotaPeriod DRADeviceTaintRules DRADeviceTaints InformerResourceVersion \
             MutatingAdmissionPolicy PodCertificateRequest SELinuxMount StorageVersionMigrator",
    },
    Group {
        stage: Stage::Deprecated,
        default: false,
        locked: true,
        known_to_1_37: true,
        names: "AllowOverwriteTerminationGracePeriodSeconds DeclarativeValidationTakeover \
             GitRepoVolumeDriver SeparateCacheWatchRPC",
    },
    Group {
        stage: Stage::Deprecated,
        default: false,
        locked: false,
        known_to_1_37: true,
        names: "AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests \
             ChangeContainerStatusOnKubeletRestart KMSv1 KubeletRegistrationGetOnExistsOnly \
             WindowsHostNetwork",
    },
    Group {
        stage: Stage::Deprecated,
        default: true,
        locked: true,
        known_to_1_37: true,
        names: "AggregatedDiscoveryRemoveBetaType DisableCPUQuotaWithExclusiveCPUs \
             DisableNodeKubeProxyVersion",
    },
    Group {
        stage: Stage::Deprecated,
        default: true,
        locked: false,
        known_to_1_37: true,
        names: "KubeProxyIPVS KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping \
             StorageNamespaceIndex",
    },
    Group {
        stage: Stage::Alpha,
        default: false,
        locked: false,
        known_to_1_37: false,
        names: "GangScheduling WorkloadAwarePreemption",
    },
    Group {
        stage: Stage::Beta,
        default: true,
        locked: false,
        known_to_1_37: false,
        names: "PreventStaticPodAPIReferences",
    },
    // Gone long before 1.36. Configurations from the time of userspace mode have it.
    Group {
        stage: Stage::Stable,
        default: true,
        locked: false,
        known_to_1_37: false,
        names: super::ENDPOINT_SLICES,
    },
    Group {
        stage: Stage::Stable,
        default: true,
        locked: true,
        known_to_1_37: false,
        names: "APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource \
             AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache ConsistentListFromCache \
             JobBackoffLimitPerIndex JobPodReplacementPolicy JobSuccessPolicy LogarithmicScaleDown \
             OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero \
             RelaxedDNSSearchValidation ResilientWatchCacheInitialization RetryGenerateName \
             SchedulerQueueingHints SidecarContainers StreamingCollectionEncodingToJSON \
             StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration",
    },
];
