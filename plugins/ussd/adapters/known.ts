import type { Adapter } from './adapter.ts'

/** Aggregators whose bodies are publicly documented. An adapter is data, and an operator can write one as a JSON file. */
export const knownAdapters: readonly Adapter[] = [
  {
    name: 'africas-talking',
    fields: {
      sessionId: 'sessionId',
      phoneNumber: 'phoneNumber',
      text: 'text',
      network: 'networkCode',
    },
    text: 'accumulated',
    // The notification at the end has no text; it tells the status, the cost and the duration of the session.
    ended: { field: 'durationInMillis' },
    reply: 'text',
  },
  {
    name: 'hubtel',
    fields: {
      sessionId: 'SessionId',
      phoneNumber: 'Mobile',
      text: 'Message',
      sequence: 'Sequence',
      operator: 'Operator',
    },
    text: 'last',
    first: { field: 'Type', values: ['initiation'] },
    ended: { field: 'Type', values: ['release', 'timeout'] },
    reply: {
      SessionId: { echo: 'SessionId' },
      Type: { continues: 'response', ends: 'release' },
      Message: { screen: true },
    },
  },
  {
    name: 'arkesel',
    fields: {
      sessionId: 'sessionID',
      phoneNumber: 'msisdn',
      text: 'userData',
      operator: 'network',
    },
    text: 'last',
    first: { field: 'newSession', values: ['true'] },
    reply: {
      sessionID: { echo: 'sessionID' },
      userID: { echo: 'userID' },
      msisdn: { echo: 'msisdn' },
      message: { screen: true },
      continueSession: { continues: true, ends: false },
    },
  },
  {
    name: 'nalo',
    fields: {
      sessionId: 'SESSIONID',
      phoneNumber: 'MSISDN',
      text: 'USERDATA',
      operator: 'NETWORK',
    },
    text: 'last',
    first: { field: 'MSGTYPE', values: ['true'] },
    reply: {
      USERID: { echo: 'USERID' },
      MSISDN: { echo: 'MSISDN' },
      MSG: { screen: true },
      MSGTYPE: { continues: true, ends: false },
    },
  },
]
