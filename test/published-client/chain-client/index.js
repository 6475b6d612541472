/** Nothing is found on a chain: the test gives the addresses as overrides. */
const nothing = async () => undefined

export const gqlClient = { GetEntityById: async () => ({ entity: { service: [] } }) }

export class Authz {
  static getOracleAuthZConfig = async () => ({})
}

export class Payments {}

export const CryptoUtils = {}
export const getMatrixUrlsForDid = nothing
export const getOracleAgentCard = nothing
export const normalizeMatrixHomeServerUrl = (url) => url
