/** Nothing is found on a chain: the test gives the addresses as overrides, or what the chain would say as `chainOfTest`. */
const told = () => globalThis.chainOfTest ?? {}

export const gqlClient = { GetEntityById: async () => ({ entity: { service: [] } }) }

export class Authz {
  static getOracleAuthZConfig = async () => told().authz ?? {}
}

export class Payments {}

export const CryptoUtils = {}
export const getMatrixUrlsForDid = async () => told().matrix
export const getOracleAgentCard = async () => told().card
export const normalizeMatrixHomeServerUrl = (url) => url
