// Alerts and a workbook on the metrics and logs of azure-functions-singleton, as Application Insights has them.
// What each asks, what it costs and how to try it: docs/deploy.md.
targetScope = 'resourceGroup'

@description('Name of the Application Insights resource that the function app writes to, in this resource group.')
param applicationInsightsName string

@description('Region of the alert rules and of the workbook: that of the Application Insights resource.')
param location string = resourceGroup().location

@description('What the names of the alert rules and of the workbook begin with.')
param namePrefix string = 'singleton'

@description('Resource ids of the action groups that are told. Without one, alerts only show in the portal.')
param actionGroupIds array = []

@description('Names of functions that must do their work at least once in every window. Each gets a rule of its own.')
param mustSucceed array = []

@description('How long a function of mustSucceed may go without a success.')
@allowed(['PT5M', 'PT10M', 'PT15M', 'PT30M', 'PT45M', 'PT1H', 'PT2H', 'PT3H', 'PT4H', 'PT5H', 'PT6H', 'P1D', 'P2D'])
param successWindow string = 'PT15M'

@description('How often the rules are evaluated. More often costs more.')
@allowed(['PT1M', 'PT5M', 'PT10M', 'PT15M', 'PT30M', 'PT1H'])
param evaluationFrequency string = 'PT5M'

@description('Window of the other rules. Keep it three times the evaluation frequency: metrics arrive minutes late.')
@allowed(['PT5M', 'PT10M', 'PT15M', 'PT30M', 'PT45M', 'PT1H', 'PT2H', 'PT3H', 'PT4H', 'PT5H', 'PT6H', 'P1D', 'P2D'])
param window string = 'PT15M'

@description('Of a hundred attempts for a lock, how many may end without it.')
@minValue(0)
@maxValue(100)
param contentionPercent int = 50

@description('Seconds for which a lock may be held. Set it above the longest run that is normal.')
@minValue(1)
param longestHoldSeconds int = 600

@description('Warnings about long waits that are normal in a window.')
@minValue(0)
param longWaits int = 0

@description('Lost holds that are normal in a window.')
@minValue(0)
param lostHolds int = 0

@description('Whether the rules are switched on.')
param enabled bool = true

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: applicationInsightsName
}

// An alert of its own for each value.
var byFunction = {
  name: 'function'
  operator: 'Include'
  values: ['*']
}
var byReason = {
  name: 'reason'
  operator: 'Include'
  values: ['*']
}
var byQueue = {
  name: 'queue'
  operator: 'Include'
  values: ['*']
}

var rules = [
  {
    name: 'contention'
    description: 'Many attempts end without the lock: work is skipped, deferred or refused.'
    severity: 3
    query: loadTextContent('queries/contention.kql')
    measure: 'share'
    dimensions: [byFunction]
    threshold: contentionPercent
  }
  {
    name: 'held-too-long'
    description: 'A lock is held for longer than is normal, or was: its body may hang.'
    severity: 2
    query: loadTextContent('queries/held-too-long.kql')
    measure: 'longest'
    dimensions: [byFunction]
    threshold: longestHoldSeconds
  }
  {
    name: 'lost-holds'
    description: 'A lock was lost before the work under it had ended. Two may have run at once.'
    severity: 1
    query: loadTextContent('queries/lost-holds.kql')
    measure: 'lost'
    dimensions: [byFunction, byReason]
    threshold: lostHolds
  }
  {
    name: 'poison'
    description: 'Messages failed for good and were moved to a poison queue.'
    severity: 2
    query: loadTextContent('queries/poison.kql')
    measure: 'messages'
    dimensions: [byQueue]
    threshold: 0
  }
]

resource measured 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [for rule in rules: {
  name: '${namePrefix}-${rule.name}'
  location: location
  kind: 'LogAlert'
  properties: {
    displayName: '${namePrefix}: ${rule.name}'
    description: rule.description
    severity: rule.severity
    enabled: enabled
    scopes: [insights.id]
    evaluationFrequency: evaluationFrequency
    windowSize: window
    autoMitigate: true
    criteria: {
      allOf: [
        {
          query: rule.query
          metricMeasureColumn: rule.measure
          timeAggregation: 'Maximum'
          dimensions: rule.dimensions
          operator: 'GreaterThan'
          threshold: rule.threshold
          failingPeriods: {
            numberOfEvaluationPeriods: 1
            minFailingPeriodsToAlert: 1
          }
        }
      ]
    }
    actions: {
      actionGroups: actionGroupIds
    }
  }
}]

resource waitsLong 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = {
  name: '${namePrefix}-waits-long'
  location: location
  kind: 'LogAlert'
  properties: {
    displayName: '${namePrefix}: waits-long'
    description: 'Somebody waits long for a lock: its holder may be stuck. The warning names the holder.'
    severity: 2
    enabled: enabled
    scopes: [insights.id]
    evaluationFrequency: evaluationFrequency
    windowSize: window
    autoMitigate: true
    criteria: {
      allOf: [
        {
          query: loadTextContent('queries/waits-long.kql')
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: longWaits
          failingPeriods: {
            numberOfEvaluationPeriods: 1
            minFailingPeriodsToAlert: 1
          }
        }
      ]
    }
    actions: {
      actionGroups: actionGroupIds
    }
  }
}

resource noSuccess 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [for function in mustSucceed: {
  name: '${namePrefix}-no-success-${function}'
  location: location
  kind: 'LogAlert'
  properties: {
    displayName: '${namePrefix}: no success of ${function}'
    description: '${function} has not done its work once in the window.'
    severity: 1
    enabled: enabled
    scopes: [insights.id]
    evaluationFrequency: evaluationFrequency
    windowSize: successWindow
    autoMitigate: true
    criteria: {
      allOf: [
        {
          query: replace(loadTextContent('queries/no-success.kql'), 'import_eligibility', function)
          timeAggregation: 'Count'
          operator: 'LessThan'
          threshold: 1
          failingPeriods: {
            numberOfEvaluationPeriods: 1
            minFailingPeriodsToAlert: 1
          }
        }
      ]
    }
    actions: {
      actionGroups: actionGroupIds
    }
  }
}]

resource locks 'Microsoft.Insights/workbooks@2022-04-01' = {
  name: guid(insights.id, namePrefix)
  location: location
  kind: 'shared'
  properties: {
    displayName: '${namePrefix}: locks'
    category: 'workbook'
    sourceId: insights.id
    serializedData: loadTextContent('workbook.json')
  }
}
