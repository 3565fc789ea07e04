// Who may use the locks of a container, put messages back into queues, and look after the locks.
// Which right each request needs, and why: docs/deploy.md.
targetScope = 'resourceGroup'

@description('Name of the storage account that keeps the locks, in this resource group.')
param storageAccountName string

@description('Object id of the identity of the function app. Empty: the app is given no right.')
param appPrincipalId string = ''

@description('Object id of the group of those who are on call. Empty: nobody is given the right to break locks.')
param operatorPrincipalId string = ''

@description('Whether an operator is a group, a user or another identity.')
@allowed(['Group', 'User', 'ServicePrincipal'])
param operatorPrincipalType string = 'Group'

@description('The container that has the locks: the option container of host.json. It is made here.')
@minLength(3)
@maxLength(63)
param containerName string = 'webjobshost'

@description('Queues of this account whose messages are put back by on_contention="defer". Each must be there.')
param deferringQueues array = []

@description('Whether "defer" is used, on queues of this account or of another one. It notes failures beside the locks.')
param defers bool = !empty(deferringQueues)

@description('What the names of the roles end with. The names of roles are unique in a tenant.')
param roleSuffix string = uniqueString(resourceGroup().id)

var appQueues = empty(appPrincipalId) ? [] : deferringQueues

resource account 'Microsoft.Storage/storageAccounts@2023-05-01' existing = {
  name: storageAccountName
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' existing = {
  parent: account
  name: 'default'
}

// Made here, so that no app needs the right to make containers.
resource container 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = {
  parent: blobs
  name: containerName
  properties: {
    publicAccess: 'None'
  }
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices@2023-05-01' existing = {
  parent: account
  name: 'default'
}

resource deferring 'Microsoft.Storage/storageAccounts/queueServices/queues@2023-05-01' existing = [for name in deferringQueues: {
  parent: queues
  name: name
}]

// The poison queues of these. "defer" makes one where it is missing; made here, the first poisoned message finds it.
resource poison 'Microsoft.Storage/storageAccounts/queueServices/queues@2023-05-01' = [for name in deferringQueues: {
  parent: queues
  name: '${name}-poison'
}]

resource useLocks 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(resourceGroup().id, 'singleton lock user')
  properties: {
    roleName: 'Singleton lock user ${roleSuffix}'
    description: 'Take, renew and release the leases of lock blobs, make these blobs, and stamp them.'
    type: 'CustomRole'
    assignableScopes: [resourceGroup().id]
    permissions: [
      {
        actions: []
        notActions: []
        dataActions: [
          'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read'
          'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write'
        ]
        notDataActions: []
      }
    ]
  }
}

resource keepLocks 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(resourceGroup().id, 'singleton lock keeper')
  properties: {
    roleName: 'Singleton lock keeper ${roleSuffix}'
    description: 'As a lock user, and delete blobs: to sweep locks, and to forget the failures of deferred messages.'
    type: 'CustomRole'
    assignableScopes: [resourceGroup().id]
    permissions: [
      {
        actions: []
        notActions: []
        dataActions: [
          'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read'
          'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write'
          'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete'
        ]
        notDataActions: []
      }
    ]
  }
}

resource deferMessages 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(resourceGroup().id, 'singleton message deferrer')
  properties: {
    roleName: 'Singleton message deferrer ${roleSuffix}'
    description: 'Hide, send and delete messages of a queue, read its clock, and make it where it is missing.'
    type: 'CustomRole'
    assignableScopes: [resourceGroup().id]
    permissions: [
      {
        actions: [
          'Microsoft.Storage/storageAccounts/queueServices/queues/read'
          'Microsoft.Storage/storageAccounts/queueServices/queues/write'
        ]
        notActions: []
        dataActions: [
          'Microsoft.Storage/storageAccounts/queueServices/queues/messages/write'
          'Microsoft.Storage/storageAccounts/queueServices/queues/messages/delete'
        ]
        notDataActions: []
      }
    ]
  }
}

resource appUsesLocks 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(appPrincipalId)) {
  name: guid(container.id, appPrincipalId, defers ? keepLocks.id : useLocks.id)
  scope: container
  properties: {
    roleDefinitionId: defers ? keepLocks.id : useLocks.id
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
  }
}

resource operatorsKeepLocks 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(operatorPrincipalId)) {
  name: guid(container.id, operatorPrincipalId, keepLocks.id)
  scope: container
  properties: {
    roleDefinitionId: keepLocks.id
    principalId: operatorPrincipalId
    principalType: operatorPrincipalType
  }
}

resource appDefers 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (name, index) in appQueues: {
  name: guid(deferring[index].id, appPrincipalId, deferMessages.id)
  scope: deferring[index]
  properties: {
    roleDefinitionId: deferMessages.id
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
  }
}]

resource appPoisons 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (name, index) in appQueues: {
  name: guid(poison[index].id, appPrincipalId, deferMessages.id)
  scope: poison[index]
  properties: {
    roleDefinitionId: deferMessages.id
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
  }
}]

@description('The role that an app needs on the container of its locks.')
output lockUserRoleId string = useLocks.id

@description('The role that operators need on it, and an app that defers.')
output lockKeeperRoleId string = keepLocks.id

@description('The role that an app needs on each queue whose messages it defers.')
output messageDeferrerRoleId string = deferMessages.id
